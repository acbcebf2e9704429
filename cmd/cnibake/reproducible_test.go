package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Two builds that share nothing but pin, toolchain and flags give the same bytes: other HOME,
// directory, TZ and umask, no common cache, and settings in the environment and in `go env -w`
// that would change what the Go toolchain produces.
func TestBuildsAreBitIdentical(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles every plugin twice: left out with -short")
	}

	t.Parallel()

	home := t.TempDir()
	out := filepath.Join(t.TempDir(), "elsewhere", "dist")
	goenv := filepath.Join(home, "goenv")

	if err := os.WriteFile(goenv, []byte("GOAMD64=v3\nGOFLAGS=-tags=nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	// The checkout is copied, since "in any directory" includes the installer's.
	checkout := filepath.Join(home, "src")
	output(t, "sh", "-c", `mkdir "$1" && cd ../.. && cp -r go.mod go.sum cmd builder profiles extension "$1"`, "sh", checkout)

	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 077 && exec cnibake build --quiet --jobs 1 --out "$1"`, "sh", out)
	cmd.Dir = checkout
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=Pacific/Chatham", "LANG=tr_TR.UTF-8",
		"GOMODCACHE=" + goSettings(t)["GOMODCACHE"], "GOPROXY=" + goSettings(t)["GOPROXY"],
		"GOENV=" + goenv, "GOFLAGS=-ldflags=-w -race", "GOFIPS140=latest", "GOEXPERIMENT=jsonv2", "GOARM64=v9.0",
		"GOBIN=/nonexistent", "GOOS=windows", "GOARCH=riscv64", "GOWORK=/nonexistent/go.work", "CGO_ENABLED=1", "GODEBUG=madvdontneed=0",
	}

	if message, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, message)
	}

	if diff, err := exec.Command("diff", "-r", distDir(t), out).CombinedOutput(); err != nil {
		t.Errorf("the builds differ:\n%s", diff)
	}
}
