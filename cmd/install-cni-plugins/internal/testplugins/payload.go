package testplugins

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cnibake/cnibake/builder/payload"
)

// ManifestOf returns the manifest of a directory of plugin files, as the build would write it.
func ManifestOf(t testing.TB, dir string) payload.Manifest {
	t.Helper()

	p, _, err := readPin()
	if err != nil {
		t.Fatal(err)
	}

	m := payload.Manifest{
		SchemaVersion: payload.SchemaVersion,
		Pin:           payload.Pin{Version: p.version, Module: p.module, Sum: p.sum},
		Revision:      1, Arch: runtime.GOARCH, Source: "module", Packaging: "separate",
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, e := range entries {
		if !e.Type().IsRegular() || !payload.ValidName(e.Name()) {
			continue
		}

		digest, size, err := payload.DigestFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}

		m.Plugins = append(m.Plugins, payload.Plugin{
			Name: e.Name(), File: e.Name(), Version: p.version, Digest: digest, Size: size,
		})
	}

	return m
}

// WriteManifest writes a manifest into a directory, where it lies beside the plugins.
func WriteManifest(t testing.TB, dir string, m payload.Manifest) {
	t.Helper()

	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(dir, payload.ManifestName), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Payload returns a new directory with some of the pinned plugins and their manifest. Without names
// it holds them all.
func Payload(t testing.TB, shape Shape, names ...string) string {
	t.Helper()

	from, dir := Dir(t, shape), t.TempDir()

	if len(names) == 0 {
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}

		for _, e := range entries {
			names = append(names, e.Name())
		}
	}

	for _, name := range names {
		Copy(t, filepath.Join(from, name), filepath.Join(dir, name))
	}

	WriteManifest(t, dir, ManifestOf(t, dir))

	return dir
}

// Copy copies a file and makes it executable.
func Copy(t testing.TB, from, to string) {
	t.Helper()

	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}
