package oci_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cnibake/cnibake/builder/oci"
)

func TestReplaceFile(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	name := filepath.Join(dir, "file")

	check := func(content string, mode os.FileMode) {
		t.Helper()

		data, err := os.ReadFile(name)
		if err != nil || string(data) != content {
			t.Errorf("%q, want %q: %v", data, content, err)
		}

		if info, err := os.Stat(name); err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("mode %v, want %v", info.Mode(), mode)
		}

		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("there are %v: %v", entries, err)
		}
	}

	if err := oci.ReplaceFile(name, 0o604, strings.NewReader("one")); err != nil {
		t.Fatal(err)
	}

	check("one", 0o604)

	// Somebody wanted it so.
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}

	if err := oci.ReplaceFile(name, 0o644, strings.NewReader("two")); err != nil {
		t.Fatal(err)
	}

	check("two", 0o640)

	broken := errors.New("broken")
	if err := oci.ReplaceFile(name, 0o644, io.MultiReader(strings.NewReader("thr"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}

	check("two", 0o640)
}
