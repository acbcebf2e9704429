package installer_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/installer"
)

// copyPlugin copies a real plugin: a static program, as the installer is.
func copyPlugin(t *testing.T, arch, to string) {
	t.Helper()

	data, err := os.ReadFile(buildertest.Plugins(t, arch).Files["static"].Path)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFileSource(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		copyPlugin(t, arch, filepath.Join(dir, "installer-"+arch))
	}

	source := &installer.FileSource{Path: filepath.Join(dir, "installer-{arch}")}

	for _, arch := range []string{"amd64", "arm64"} {
		program, err := source.Provide(t.Context(), arch, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}

		want, _ := buildertest.Plugins(t, arch).Manifest.Lookup("static")
		if program.Path != filepath.Join(dir, "installer-"+arch) || program.Digest != want.Digest || program.Size != want.Size || program.Binary.Arch != arch {
			t.Errorf("program is %s, %s, %d bytes, for %s", program.Path, program.Digest, program.Size, program.Binary.Arch)
		}
	}
}

func TestFileSourceRejects(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		make func(t *testing.T, name string) error
		want string
	}{
		"absent":             {func(*testing.T, string) error { return nil }, "reading the installer: stat NAME: no such file or directory"},
		"directory":          {func(_ *testing.T, name string) error { return os.Mkdir(name, 0o755) }, "installer NAME is not a regular file"},
		"FIFO":               {func(_ *testing.T, name string) error { return syscall.Mkfifo(name, 0o644) }, "installer NAME is not a regular file"},
		"device":             {func(_ *testing.T, name string) error { return os.Symlink("/dev/zero", name) }, "installer NAME is not a regular file"},
		"script":             {func(_ *testing.T, name string) error { return os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755) }, "installer NAME: not an ELF program"},
		"empty":              {func(_ *testing.T, name string) error { return os.WriteFile(name, nil, 0o755) }, "installer NAME: not an ELF program"},
		"dynamic":            {func(_ *testing.T, name string) error { return os.Symlink("/bin/ls", name) }, "installer NAME is dynamically linked (needs /lib"},
		"wrong architecture": {func(t *testing.T, name string) error { copyPlugin(t, "arm64", name); return nil }, "installer NAME is a program for arm64, not for amd64"},
		"half": {func(t *testing.T, name string) error {
			copyPlugin(t, "amd64", name)

			return os.Truncate(name, 100_000)
		}, "installer NAME: not an ELF program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			file := filepath.Join(t.TempDir(), "install-cni-plugins")
			if err := test.make(t, file); err != nil {
				t.Fatal(err)
			}

			_, err := (&installer.FileSource{Path: file}).Provide(t.Context(), "amd64", t.TempDir())
			if want := strings.ReplaceAll(test.want, "NAME", file); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}
