package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// failing runs a build that must fail with one line that has all the texts.
func failing(t *testing.T, args []string, texts ...string) {
	t.Helper()

	var stdout, stderr bytes.Buffer

	code := run(t.Context(), append([]string{"build", "-q", "talos", "--arch", "amd64"}, args...), testEnviron(t), &stdout, &stderr)
	if code != exitFailed {
		t.Fatalf("exit code %d, want %d", code, exitFailed)
	}

	if message := stderr.String(); strings.Count(message, "\n") != 1 {
		t.Errorf("not one line:\n%s", message)
	}

	for _, text := range texts {
		if !strings.Contains(stderr.String(), text) {
			t.Errorf("lacks %q: %s", text, stderr.String())
		}
	}
}

func mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()

	dir := t.TempDir()
	buildertest.Mount(t, "tmpfs", dir, "tmpfs", flags, options)

	return dir
}

func TestFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()

	dir := mount(t, 0, "size=8m")
	out := filepath.Join(dir, "dist")

	failing(t, []string{"--out", out}, "no space left on device", "free some space, or choose another --out")

	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestReadOnlyOutput(t *testing.T) {
	t.Parallel()

	dir := mount(t, syscall.MS_RDONLY, "size=8m")
	failing(t, []string{"--out", filepath.Join(dir, "dist")}, "making output directory", "read-only file system", "choose a place")
}

// Ctrl-C during a build ends it soon, with the old output whole and no compiler left running.
func TestInterruptLeavesTheOldOutput(t *testing.T) {
	t.Parallel()

	out := filepath.Join(t.TempDir(), "dist")
	if code := run(t.Context(), []string{"build", "-q", "talos", "--arch", "amd64", "--out", out}, testEnviron(t), new(bytes.Buffer), os.Stderr); code != exitGood {
		t.Fatalf("exit code %d", code)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	// An empty cache, so that there is something to interrupt.
	cmd := exec.CommandContext(ctx, "cnibake", "build", "talos", "--arch", "amd64", "--out", out)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "GOCACHE="+t.TempDir())

	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	// The first line says that compiling begins.
	first := make([]byte, 256)
	if _, err := stderr.Read(first); err != nil {
		t.Fatal(err)
	}

	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}

	var rest bytes.Buffer

	_, _ = rest.ReadFrom(stderr)
	_ = cmd.Wait()

	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(rest.String(), "interrupted") {
		t.Errorf("exit code %d, stderr %q", code, rest.String())
	}

	output(t, "sh", "-c", `cd "$1" && sha256sum -c --quiet SHA256SUMS && test -z "$(ls -d .cnibake-* 2>/dev/null)"`, "sh", out)
}
