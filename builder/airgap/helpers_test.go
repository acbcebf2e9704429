package airgap_test

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/profiles"
)

var formats = map[profiles.Format]builder.Format{
	profiles.FormatImage: builder.Image{},
}

// newDist returns a directory with a real build, for one test to change.
func newDist(t *testing.T) string {
	t.Helper()

	dir, _ := buildertest.Build(t, formats, []string{"init-container"}, nil)

	return dir
}

var shared struct {
	once   sync.Once
	bundle []byte
}

// newBundle returns the bundle of a build, made once for all tests.
func newBundle(t *testing.T) []byte {
	t.Helper()

	shared.once.Do(func() { shared.bundle = create(t, newDist(t)) })

	if shared.bundle == nil {
		t.Fatal("there is no bundle")
	}

	return shared.bundle
}

func create(t *testing.T, dir string) []byte {
	t.Helper()

	var out bytes.Buffer
	if _, err := airgap.Create(t.Context(), &out, dir); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// open opens a bundle that a test holds in memory.
func open(t *testing.T, bundle []byte) (*airgap.Bundle, error) {
	t.Helper()

	file := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(file, bundle, 0o644); err != nil {
		t.Fatal(err)
	}

	b, err := airgap.Open(t.Context(), file, t.TempDir())
	if err == nil {
		t.Cleanup(func() { b.Close() })
	}

	return b, err
}

var stamp = time.Unix(1_700_000_000, 0)

func remove(t *testing.T, dir, name string) {
	t.Helper()

	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, dir, name, text string) {
	t.Helper()

	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}

	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, dir, name, before, after string) {
	t.Helper()

	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !strings.Contains(string(data), before) {
		t.Fatalf("%s has no %q: %v", name, before, err)
	}

	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(string(data), before, after)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// blobOf returns the name of the largest blob of a layout.
func blobOf(t *testing.T, dir, layout string) string {
	t.Helper()

	blobs, err := filepath.Glob(filepath.Join(dir, layout, "blobs/sha256/*"))
	if err != nil || len(blobs) == 0 {
		t.Fatalf("there is no blob: %v", err)
	}

	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}

		return info.Size()
	}

	slices.SortFunc(blobs, func(a, b string) int { return cmp.Compare(size(b), size(a)) })

	name, err := filepath.Rel(dir, blobs[0])
	if err != nil {
		t.Fatal(err)
	}

	return name
}
