package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// maxBinarySize is what an artifact may grow by for carrying the installer.
const maxBinarySize = 4_000_000

var buildOnce struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()

	if buildOnce.dir != "" {
		os.RemoveAll(buildOnce.dir)
	}

	os.Exit(code)
}

// binary builds the program as it is shipped, once.
func binary(t testing.TB) string {
	t.Helper()

	buildOnce.Do(func() {
		if buildOnce.dir, buildOnce.err = os.MkdirTemp("", "install-cni-plugins-"); buildOnce.err != nil {
			return
		}

		buildOnce.err = compile(buildOnce.dir, "")
	})

	if buildOnce.err != nil {
		t.Fatalf("building the program: %v", buildOnce.err)
	}

	return filepath.Join(buildOnce.dir, "install-cni-plugins")
}

func compile(dir, arch string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")

	if arch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+arch)
	}

	cmd.Stderr = os.Stderr

	return cmd.Run()
}

func TestProgramIsSmallAndStatic(t *testing.T) {
	t.Parallel()

	for _, arch := range []string{"amd64", "arm64", "arm"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			if testing.Short() && arch != "amd64" {
				t.Skip("compiling for other machines takes a while")
			}

			dir := t.TempDir()
			if err := compile(dir, arch); err != nil {
				t.Fatal(err)
			}

			path := filepath.Join(dir, "install-cni-plugins")

			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}

			t.Logf("%d bytes", info.Size())

			if info.Size() >= maxBinarySize {
				t.Errorf("the program has %d bytes, more than %d", info.Size(), maxBinarySize)
			}

			file, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()

			for _, p := range file.Progs {
				if p.Type == elf.PT_INTERP {
					t.Error("the program asks for a loader")
				}
			}
		})
	}
}

// want checks a bin directory against a payload by the program's own verify, and for litter.
func (p place) want(t testing.TB) {
	t.Helper()

	o := invoke(t, nil, "verify", "--source", p.source, "--dest", p.dest, "--exact")
	if o.code != 0 {
		t.Errorf("verify: %s%s", o.stdout, o.stderr)
	}

	entries, err := os.ReadDir(p.dest)
	if err != nil {
		t.Fatal(err)
	}

	if names := testplugins.ManifestOf(t, p.source).Names(); len(entries) != len(names) {
		t.Errorf("%s has %d entries, want %d: %v", p.dest, len(entries), len(names), entries)
	}
}
