package oci

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ReplaceFile writes a file beside its place and renames it, once it is on the disk: there is never half of it. It
// keeps the mode of the file that it replaces; a new one gets the given mode.
func ReplaceFile(name string, mode os.FileMode, content io.Reader) error {
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}

	// In the output of a build, the next build removes what has this prefix.
	file, err := os.CreateTemp(filepath.Dir(name), ".cnibake-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())

	_, err = io.Copy(file, content)
	if err == nil {
		err = errors.Join(file.Chmod(mode), file.Sync())
	}

	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}

	return os.Rename(file.Name(), name)
}
