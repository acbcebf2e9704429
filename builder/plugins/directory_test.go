package plugins_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// pluginDir is a directory with the few real plugins of an architecture.
func pluginDir(t *testing.T, arch string) string {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "bin-"+arch)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	for _, name := range few {
		// Modes are not taken over, so that a umask of the past is no obstacle.
		if err := os.WriteFile(filepath.Join(dir, name), realPlugin(t, arch, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func TestDirectoryOfRealPlugins(t *testing.T) {
	t.Parallel()

	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			dir, work := pluginDir(t, arch), t.TempDir()
			source := &plugins.DirectorySource{Path: strings.TrimSuffix(dir, arch) + "{arch}"}

			set, err := plugins.Collect(t.Context(), source, loadPin(t), arch, selection(t, few...), work)
			if err != nil {
				t.Fatal(err)
			}

			if m := set.Manifest; m.Source != "directory" || m.Unpinned {
				t.Errorf("manifest is %+v", m)
			}

			// What happens to the directory afterwards must not reach the artifacts.
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}

			built := realPlugins(t, arch)

			for _, got := range set.Manifest.Plugins {
				if want, _ := built.Manifest.Lookup(got.Name); got != want {
					t.Errorf("plugin is %+v, want %+v", got, want)
				}

				if digest, _, err := payload.DigestFile(set.Files[got.File].Path); err != nil || digest != got.Digest {
					t.Errorf("%s: the copy has %s: %v", got.Name, digest, err)
				}
			}
		})
	}
}

// TestDirectoryUnpinned: a directory has no sum, so the programs' own build info decides.
func TestDirectoryUnpinned(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(t *testing.T, dir string, pin *profiles.Pin){
		"other version": func(_ *testing.T, _ string, pin *profiles.Pin) { pin.Version = "v1.10.0" },
		"other sum":     func(_ *testing.T, _ string, pin *profiles.Pin) { pin.Module.Sum = "h1:other" },
		"other module":  func(_ *testing.T, _ string, pin *profiles.Pin) { pin.Module.Path = "example.org/plugins" },
		"other plugin": func(t *testing.T, dir string, _ *profiles.Pin) {
			if err := os.WriteFile(filepath.Join(dir, "static"), realPlugin(t, "amd64", "host-local"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir, pin := pluginDir(t, "amd64"), loadPin(t)
			change(t, dir, &pin)

			set, err := plugins.Collect(t.Context(), &plugins.DirectorySource{Path: dir}, pin, "amd64", selection(t, few...), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}

			if !set.Manifest.Unpinned {
				t.Error("the manifest calls the plugins pinned")
			}

			want := "v1.9.1" // what the program shows of the pin's module
			if pin.Module.Path == "example.org/plugins" {
				want = "unknown"
			}

			if got := set.Manifest.Plugins[1].Version; got != want {
				t.Errorf("version is %s, want %s", got, want)
			}
		})
	}
}

func TestDirectoryRejects(t *testing.T) {
	t.Parallel()

	replace := func(t *testing.T, dir string, with func(name string) error) {
		t.Helper()

		name := filepath.Join(dir, "static")
		if err := errors.Join(os.Remove(name), with(name)); err != nil {
			t.Fatal(err)
		}
	}

	ls, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		with func(name string) error
		want string
	}{
		"symlink":            {func(name string) error { return os.Symlink("host-local", name) }, "directory DIR: static is not a regular file"},
		"FIFO":               {func(name string) error { return syscall.Mkfifo(name, 0o644) }, "directory DIR: static is not a regular file"},
		"directory":          {func(name string) error { return os.Mkdir(name, 0o755) }, "directory DIR: static is not a regular file"},
		"missing":            {func(string) error { return nil }, "directory DIR does not have static"},
		"script":             {func(name string) error { return os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755) }, "directory DIR: static: not an ELF program"},
		"wrong architecture": {func(name string) error { return os.WriteFile(name, realPlugin(t, "arm64", "static"), 0o755) }, "source directory: static for amd64: is a program for arm64, not for amd64"},
		"dynamic":            {func(name string) error { return os.WriteFile(name, ls, 0o755) }, "source directory: static for amd64: is dynamically linked (needs /lib"},
		"huge": {
			func(name string) error { return errors.Join(os.WriteFile(name, nil, 0o755), os.Truncate(name, 1<<40)) },
			"directory DIR: static has 1099511627776 bytes, more than a plugin can have (536870912)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := pluginDir(t, "amd64")
			replace(t, dir, test.with)

			_, err := plugins.Collect(t.Context(), &plugins.DirectorySource{Path: dir}, loadPin(t), "amd64", selection(t, few...), t.TempDir())
			if want := strings.ReplaceAll(test.want, "DIR", dir); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error is\n\t%v\nwant\n\t%s", err, want)
			}
		})
	}
}

func TestDirectoryAbsent(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "absent")

	_, err := plugins.Collect(t.Context(), &plugins.DirectorySource{Path: dir}, loadPin(t), "amd64", selection(t, few...), t.TempDir())
	if want := "reading directory source: stat " + dir + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
