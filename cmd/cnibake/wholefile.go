package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// createWhole writes a file beside its place and renames it, so that there is never half of it. Devices and
// pipes are written to: a file in its place would be the end of /dev/null.
func createWhole(name string, write func(io.Writer) error) error {
	info, err := os.Stat(name)

	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory: give the name of a file", name)
	case err == nil && !info.Mode().IsRegular():
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}

		return errors.Join(write(file), file.Close())
	}

	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())

	err = write(file)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}

	return os.Rename(file.Name(), name)
}

// writeWhole is createWhole for what is in memory.
func writeWhole(name string, data []byte) error {
	return createWhole(name, func(w io.Writer) error {
		_, err := w.Write(data)

		return err
	})
}
