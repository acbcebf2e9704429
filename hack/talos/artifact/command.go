// Package artifact makes extensions the way a user does, by running cnibake, and reads what it says
// about them. It shares no code with the main module on purpose: a mistake made there would otherwise
// be made here too.
package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// commandVariable names a cnibake to test instead of one built from this checkout.
const commandVariable = "CNIBAKE"

var mainModule = []byte("module github.com/cnibake/cnibake\n")

// programs holds what one test process has built. Run removes it.
var programs struct {
	sync.Mutex
	dir  string
	done map[string]string
}

// Run runs a package's tests and removes the programs that they had built.
func Run(m *testing.M) int {
	defer func() {
		if programs.dir != "" {
			os.RemoveAll(programs.dir)
		}
	}()

	return m.Run()
}

// Command returns the path of cnibake.
func Command(t testing.TB) string {
	t.Helper()

	if path := os.Getenv(commandVariable); path != "" {
		return path
	}

	return Program(t, mustRoot(t), "./cmd/cnibake")
}

// Installer returns the path of an install-cni-plugins that needs nothing on the node.
func Installer(t testing.TB) string {
	t.Helper()

	return Program(t, mustRoot(t), "./cmd/install-cni-plugins")
}

// Program compiles a static program from a package in a module's directory, once in a process.
func Program(t testing.TB, moduleDir, pkg string) string {
	t.Helper()

	programs.Lock()
	defer programs.Unlock()

	key := moduleDir + " " + pkg
	if path, ok := programs.done[key]; ok {
		return path
	}

	path, err := compile(moduleDir, pkg)
	if err != nil {
		t.Fatal(err)
	}

	if programs.done == nil {
		programs.done = map[string]string{}
	}

	programs.done[key] = path

	return path
}

func compile(moduleDir, pkg string) (string, error) {
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "cnibake-talos-")
		if err != nil {
			return "", err
		}

		programs.dir = dir
	}

	path := filepath.Join(programs.dir, fmt.Sprintf("%d-%s", len(programs.done), filepath.Base(pkg)))

	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")

	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}

	return path, nil
}

func mustRoot(t testing.TB) string {
	t.Helper()

	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}

	return root
}

// Root returns the directory of the main module, above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, mainModule) {
			return dir, nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the main module: no go.mod of it above the working directory")
		}

		dir = parent
	}
}
