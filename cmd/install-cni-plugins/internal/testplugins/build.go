// Package testplugins gives tests the real pinned plugins, and what tests need of the machine. Only
// tests import it.
package testplugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Shape is how plugins are built.
type Shape string

// The shapes of plugins.
const (
	// Stripped plugins are what we ship.
	Stripped Shape = "stripped"
	// Unstripped plugins have upstream's size: five megabytes each.
	Unstripped Shape = "unstripped"
)

// Dir returns a directory that holds the pinned plugins and nothing else. It must not be written
// to: it is built once and shared by all tests, in the user's cache directory.
func Dir(t testing.TB, shape Shape) string {
	t.Helper()

	dir, err := build(t.Context(), shape)
	if err != nil {
		t.Fatalf("building the plugins for tests: %v", err)
	}

	return dir
}

// pin is what is needed of the newest pin file.
type pin struct {
	version, module, sum, goModSum, variable string
	packages                                 []string
}

func build(ctx context.Context, shape Shape) (string, error) {
	p, text, err := readPin()
	if err != nil {
		return "", err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}

	key := sha256.Sum256(fmt.Appendf(text, "%s %s %s", runtime.Version(), runtime.GOARCH, shape))
	base := filepath.Join(cache, "cnibake-testplugins")
	dir := filepath.Join(base, hex.EncodeToString(key[:8]))

	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}

	// go test runs packages side by side.
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}

	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}

	return dir, p.compile(ctx, shape, dir)
}

// compile builds the plugins as packages of a small main module, which keeps upstream's own
// dependency versions.
func (p pin) compile(ctx context.Context, shape Shape, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	upstream, err := p.download(ctx, work)
	if err != nil {
		return err
	}

	mod, err := os.ReadFile(filepath.Join(upstream, "go.mod"))
	if err != nil {
		return err
	}

	sum, err := os.ReadFile(filepath.Join(upstream, "go.sum"))
	if err != nil {
		return err
	}

	mod = regexp.MustCompile(`(?m)^module .*$`).ReplaceAll(mod, []byte("module testplugins.invalid/plugins"))
	mod = fmt.Appendf(mod, "\nrequire %s %s\n", p.module, p.version)
	sum = fmt.Appendf(sum, "%s %s %s\n%s %s/go.mod %s\n", p.module, p.version, p.sum, p.module, p.version, p.goModSum)

	if err := os.WriteFile(filepath.Join(work, "go.mod"), mod, 0o644); err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(work, "go.sum"), sum, 0o644); err != nil {
		return err
	}

	flags := "-X " + p.variable + "=" + p.version
	if shape == Stripped {
		flags += " -s -w"
	}

	out := filepath.Join(work, "out")
	args := []string{"build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", out + "/"}

	if _, err := goTool(ctx, work, append(args, p.packages...)...); err != nil {
		return err
	}

	return os.Rename(out, dir)
}

func (p pin) download(ctx context.Context, work string) (string, error) {
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte("module testplugins.invalid/download\n"), 0o644); err != nil {
		return "", err
	}

	out, err := goTool(ctx, work, "mod", "download", "-json", p.module+"@"+p.version)
	if err != nil {
		return "", err
	}

	found := regexp.MustCompile(`"Dir": "([^"]+)"`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("go mod download names no directory: %s", out)
	}

	return string(found[1]), nil
}

func goTool(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")

	var stderr strings.Builder

	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, stderr.String())
	}

	return out, nil
}

// readPin reads the newest pin file. The few values needed here are plain lines of it, and the
// loader in package profiles is out of this tree's reach.
func readPin() (pin, []byte, error) {
	_, here, _, _ := runtime.Caller(0)

	files, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../../../../profiles/pins/*.yaml"))
	if err != nil || len(files) == 0 {
		return pin{}, nil, fmt.Errorf("no pin files: %w", err)
	}

	text, err := os.ReadFile(slices.Max(files))
	if err != nil {
		return pin{}, nil, err
	}

	value := func(key string) string {
		found := regexp.MustCompile(`(?m)^ *` + key + `: (\S+)$`).FindSubmatch(text)
		if found == nil {
			return ""
		}

		return string(found[1])
	}

	p := pin{
		version: value("version"), module: value("path"), sum: value("sum"),
		goModSum: value("goModSum"), variable: value("versionVariable"),
	}

	carried, _, _ := strings.Cut(string(text), "\nleftOut:")

	for _, found := range regexp.MustCompile(`package: ([^},\s]+)`).FindAllStringSubmatch(carried, -1) {
		p.packages = append(p.packages, p.module+"/"+found[1])
	}

	if p.version == "" || p.sum == "" || len(p.packages) == 0 {
		return pin{}, nil, fmt.Errorf("%s is not the pin file this test helper can read", slices.Max(files))
	}

	return p, text, nil
}
