package stage

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openDest opens the bin directory, and makes it where it is missing and may be made.
func (r *run) openDest() (*directory, error) {
	dst, err := r.sys.openDirectory(r.Dest)
	if !errors.Is(err, unix.ENOENT) || !r.Create || r.DryRun {
		return dst, err
	}

	err = r.sys.call("mkdir", r.Dest, func() error { return mkdirAll(r.Dest) })
	if err != nil {
		return nil, err
	}

	return r.sys.openDirectory(r.Dest)
}

// mkdirAll creates a directory and its missing parents with mode 0755, whatever the umask.
func mkdirAll(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, os.ErrNotExist) && filepath.Dir(path) != path {
		if err := mkdirAll(filepath.Dir(path)); err != nil {
			return err
		}

		err = os.Mkdir(path, 0o755)
	}

	switch {
	case errors.Is(err, os.ErrExist):
		return nil
	case err != nil:
		return err
	default:
		return os.Chmod(path, 0o755)
	}
}
