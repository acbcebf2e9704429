package extension_test

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"
)

func discardLogger() *log.Logger { return log.New(io.Discard, "", 0) }

// writeTar writes an archive with one empty file and returns its name.
func writeTar(t *testing.T, dir, name, entry string, compressed bool) string {
	t.Helper()

	name = filepath.Join(dir, name)

	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}

	var out io.WriteCloser = file
	if compressed {
		out = gzip.NewWriter(file)
	}

	archive := tar.NewWriter(out)
	if err := archive.WriteHeader(&tar.Header{Name: entry, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}

	for _, c := range []io.Closer{archive, out} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}

	return name
}
