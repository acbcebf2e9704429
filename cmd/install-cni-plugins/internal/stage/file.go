package stage

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// file is an open regular file.
type file struct {
	sys  *system
	fd   int
	path string
}

var (
	_ io.ReaderAt = (*file)(nil)
	_ io.Writer   = (*file)(nil)
)

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	done := 0

	for done < len(p) {
		var n int

		err := f.sys.call("read", f.path, func() (err error) {
			n, err = unix.Pread(f.fd, p[done:], off+int64(done))

			return err
		})
		if err != nil {
			return done, err
		}

		if n == 0 {
			return done, io.EOF
		}

		done += n
	}

	return done, nil
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) {
	done := 0

	for done < len(p) {
		var n int

		err := f.sys.call("write", f.path, func() (err error) {
			n, err = unix.Write(f.fd, p[done:])

			return err
		})
		if err != nil {
			return done, err
		}

		done += n
	}

	return done, nil
}

func (f *file) stat() (st unix.Stat_t, err error) {
	err = f.sys.call("stat", f.path, func() error { return unix.Fstat(f.fd, &st) })

	return st, err
}

func (f *file) chmod(mode uint32) error {
	return f.sys.call("chmod", f.path, func() error { return unix.Fchmod(f.fd, mode) })
}

func (f *file) chown(uid, gid int) error {
	return f.sys.call("chown", f.path, func() error { return unix.Fchown(f.fd, uid, gid) })
}

func (f *file) truncate() error {
	return f.sys.call("truncate", f.path, func() error { return unix.Ftruncate(f.fd, 0) })
}

func (f *file) sync() error {
	return f.sys.call("fsync", f.path, func() error { return unix.Fsync(f.fd) })
}

func (f *file) close() error {
	// No retry: on Linux the descriptor is gone even where close reports EINTR.
	if err := unix.Close(f.fd); err != nil && !errors.Is(err, unix.EINTR) {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}

	return nil
}
