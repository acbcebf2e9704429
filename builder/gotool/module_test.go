package gotool_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/gotool"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

func loadPin(t *testing.T) profiles.Pin {
	t.Helper()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	return pin
}

func pinned(t *testing.T) gotool.Module {
	t.Helper()

	pin := loadPin(t)

	return gotool.Module{Path: pin.Module.Path, Version: pin.Version, Sum: pin.Module.Sum, GoModSum: pin.Module.GoModSum}
}

// compile builds one real plugin in an environment and returns its digest.
func compile(t *testing.T, environ []string, arch string) string {
	t.Helper()

	tool, err := gotool.Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}

	module, out := pinned(t), t.TempDir()
	ldflags := "-X " + loadPin(t).Module.VersionVariable + "=" + module.Version

	if err := tool.BuildModule(t.Context(), module, arch, ldflags, out, []string{path.Join(module.Path, "plugins/ipam/static")}); err != nil {
		t.Fatal(err)
	}

	digest, _, err := payload.DigestFile(filepath.Join(out, "static"))
	if err != nil {
		t.Fatal(err)
	}

	return digest
}

// hostile are settings of which each changes, breaks or redirects an ordinary `go build`.
var hostile = []string{
	"CGO_ENABLED=1", "GO111MODULE=off", "GOAMD64=v3", "GOARCH=arm", "GOARM64=v9.0", "GOBIN=/nonexistent", "GOFIPS140=latest",
	"GOFLAGS=-tags=netgo -ldflags=-X=main.x=y -trimpath=false -buildvcs=true -mod=mod", "GOOS=windows", "GOTOOLCHAIN=go1.99.0",
	"GOWORK=/nonexistent/go.work", "GODEBUG=madvdontneed=1", "GOGCCFLAGS=-O0", "CGO_CFLAGS=-O0", "CC=false", "LC_ALL=C.UTF-8", "TZ=Asia/Tokyo",
}

// TestHostileEnvironment: neither the shell's environment nor what `go env -w` wrote may change a byte.
func TestHostileEnvironment(t *testing.T) {
	t.Parallel()

	want := buildertest.Plugins(t, "amd64").Files["static"].Digest

	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}

	// Where `go env -w` writes by default; modules and compiled packages are kept elsewhere.
	home := t.TempDir()
	goenv := filepath.Join(home, ".config/go/env")
	elsewhere := []string{"HOME=" + home, "XDG_CONFIG_HOME="}

	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.CommandContext(t.Context(), goCommand, "env", key).Output()
		if err != nil {
			t.Fatal(err)
		}

		elsewhere = append(elsewhere, key+"="+strings.TrimSpace(string(value)))
	}

	// The go command refuses to write what it does not know.
	for _, setting := range hostile {
		cmd := exec.CommandContext(t.Context(), goCommand, "env", "-w", setting)
		cmd.Env = append(os.Environ(), "GOENV="+goenv)
		_ = cmd.Run()
	}

	written, err := os.ReadFile(goenv)
	if err != nil || !strings.Contains(string(written), "GOAMD64=v3") || !strings.Contains(string(written), "GOFLAGS=-tags") {
		t.Fatalf("go env -w wrote %q: %v", written, err)
	}

	invalid := filepath.Join(t.TempDir(), "invalid")
	if err := os.WriteFile(invalid, []byte("GOEXPERIMENT=nosuch\nGOFIPS140=nosuch\nGOFLAGS=--nosuch\nGOAMD64=v99\nGO111MODULE=no\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	for name, more := range map[string][]string{
		"plain":            nil,
		"environment":      hostile,
		"go env -w":        elsewhere,
		"GOENV":            {"GOENV=" + goenv},
		"experiment":       {"GOEXPERIMENT=nogreenteagc,nodwarf5"},
		"invalid":          {"GOEXPERIMENT=nosuch", "GOFIPS140=nosuch", "GOFLAGS=--nosuch", "GOAMD64=v99", "GOROOT=/nonexistent", "GO111MODULE=no"},
		"invalid go env":   {"GOENV=" + invalid},
		"first value wins": {"GOENV=" + goenv, "GOAMD64=v3", "GOAMD64=v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := compile(t, append(os.Environ(), more...), "amd64"); got != want {
				t.Errorf("digest is %s, want %s", got, want)
			}
		})
	}
}

// TestWithoutNetwork runs a build in a network namespace that has no way out, with a warm module cache.
func TestWithoutNetwork(t *testing.T) {
	const variable = "CNIBAKE_TEST_CUT_OFF"

	if want := os.Getenv(variable); want != "" {
		if _, err := net.Dial("udp", "192.0.2.1:53"); err == nil {
			t.Fatal("there is a network")
		}

		if got := compile(t, os.Environ(), "amd64"); got != want {
			t.Errorf("digest is %s, want %s", got, want)
		}

		return
	}

	t.Parallel()
	buildertest.RequireRoot(t)

	unshare := buildertest.RequireTool(t, "unshare")
	want := buildertest.Plugins(t, "amd64").Files["static"].Digest

	for name, environ := range map[string]string{
		"proxy switched off": "GOPROXY=off",
		"proxy unreachable":  "GOPROXY=https://proxy.golang.org,direct",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cmd := exec.CommandContext(t.Context(), unshare, "--net", os.Args[0], "-test.run=^TestWithoutNetwork$", "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+want, environ)

			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutNetwork") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestWrongSums(t *testing.T) {
	t.Parallel()

	wrong := "h1:" + strings.Repeat("A", 43) + "="
	right := pinned(t)

	for name, test := range map[string]struct {
		change func(*gotool.Module)
		sum    string
	}{
		"module": {func(m *gotool.Module) { m.Sum = wrong }, right.Sum},
		"go.mod": {func(m *gotool.Module) { m.GoModSum = wrong }, right.GoModSum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tool, err := gotool.Find(t.Context(), os.Environ())
			if err != nil {
				t.Fatal(err)
			}

			module, out := right, t.TempDir()
			test.change(&module)

			err = tool.BuildModule(t.Context(), module, "amd64", "", out, []string{path.Join(module.Path, "plugins/ipam/static")})
			if err == nil {
				t.Fatal("accepted")
			}

			for _, part := range []string{module.Path, "checksum mismatch", wrong, test.sum} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}

			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}

			if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
				t.Errorf("something was built: %v %v", entries, err)
			}
		})
	}
}

func TestWithoutGoModSum(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}

	module, out := pinned(t), t.TempDir()
	module.GoModSum = ""

	if err := tool.BuildModule(t.Context(), module, "amd64", "", out, []string{path.Join(module.Path, "plugins/ipam/static")}); err != nil {
		t.Fatal(err)
	}

	binary, err := payload.InspectFile(filepath.Join(out, "static"))
	if err != nil {
		t.Fatal(err)
	}

	if got := binary.Module(); got.Path != module.Path || got.Version != module.Version || got.Sum != module.Sum {
		t.Errorf("build info shows %+v", got)
	}
}

// TestUnknownVersion: the error is one line although the go command answers in JSON.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), append(os.Environ(), "GOPROXY=off"))
	if err != nil {
		t.Fatal(err)
	}

	module := pinned(t)
	module.Version = "v0.0.99"

	err = tool.BuildModule(t.Context(), module, "amd64", "", t.TempDir(), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "@v0.0.99: module lookup disabled by GOPROXY=off") || strings.ContainsAny(err.Error(), "\n{") {
		t.Errorf("error is %v", err)
	}

	if errors.Is(err, gotool.ErrNoToolchain) {
		t.Error("the toolchain is blamed")
	}
}
