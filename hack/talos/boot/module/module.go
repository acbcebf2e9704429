// Package module loads kernel modules in a given order, without modprobe and its tables.
package module

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LoadAll loads the modules of a directory in the order of their file names.
func LoadAll(dir string) error {
	// ReadDir sorts by name, and the host numbered the files so that dependencies come first.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	for _, entry := range entries {
		if err := load(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("loading %s: %w", entry.Name(), err)
		}
	}

	return nil
}

func load(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	flags := 0
	if filepath.Ext(path) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}

	err = unix.FinitModule(int(file.Fd()), "", flags)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}

	return err
}
