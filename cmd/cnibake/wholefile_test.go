package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Root must be able to write to /dev/null without replacing it.
func TestWholeFileKeepsDevices(t *testing.T) {
	t.Parallel()

	null := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, null); err != nil {
		t.Fatal(err)
	}

	if err := writeWhole(null, []byte("text")); err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(null); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("the device is %v now: %v", info, err)
	}

	dir := t.TempDir()

	err := createWhole(dir, func(io.Writer) error {
		t.Error("written, and only then found to be for nothing")

		return nil
	})
	if err == nil || !strings.Contains(err.Error(), dir+" is a directory") {
		t.Errorf("error is %v", err)
	}
}
