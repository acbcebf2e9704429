package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// errnoName returns the name of the error number in an error, or the error's text.
func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}

	return err.Error()
}

// pathOf returns the path that an error is about.
func pathOf(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Path
	}

	return ""
}

// relabel names another path in an error: the one the reader knows instead of a temporary.
func relabel(err error, path string) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}

	return err
}

var gerunds = map[string]string{
	"open": "opening", "create": "creating", "read": "reading", "write": "writing", "fsync": "syncing",
	"chmod": "setting the mode of", "chown": "setting the group of", "rename": "renaming to", "unlink": "removing",
	"lstat": "looking at", "stat": "looking at", "readlink": "reading the link", "readdir": "listing",
	"symlink": "linking", "mkdir": "creating", "flock": "locking", "close": "closing",
}

// sentence says in one line what failed, where and how.
func sentence(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}

	var e *fs.PathError
	if !errors.As(err, &e) {
		return err.Error()
	}

	verb := gerunds[e.Op]
	if verb == "" {
		verb = e.Op
	}

	var errno unix.Errno
	if errors.As(e.Err, &errno) {
		return fmt.Sprintf("%s %s: %s (%s)", verb, e.Path, errnoName(errno), errno.Error())
	}

	return fmt.Sprintf("%s %s: %s", verb, e.Path, e.Err)
}
