package stage

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// system makes the calls that touch a file system. It is the one seam of the package: tests set
// before, which is told of every call and can make it fail or stop the program there.
type system struct {
	before func(call, path string) error
}

func (s *system) call(name, path string, f func() error) error {
	if s.before != nil {
		if err := s.before(name, path); err != nil {
			return &fs.PathError{Op: name, Path: path, Err: err}
		}
	}

	for {
		err := f()

		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		default:
			return &fs.PathError{Op: name, Path: path, Err: err}
		}
	}
}
