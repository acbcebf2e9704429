package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/gotool"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// copier stands in for a compiler: it delivers real plugins, changed if it is told to.
type copier struct {
	t      *testing.T
	change func(program []byte) []byte
	calls  [][]string
}

func (c *copier) Version(context.Context) (string, error) { return "go1.26.0", nil }

func (c *copier) CompileModule(_ context.Context, _ profiles.Pin, arch, _, out string, packages []string) error {
	var names []string

	for _, name := range packages {
		name = path.Base(name)
		names = append(names, name)
		program := realPlugin(c.t, arch, name)

		if c.change != nil {
			program = c.change(program)
		}

		if err := os.WriteFile(filepath.Join(out, name), program, 0o755); err != nil {
			return err
		}
	}

	c.calls = append(c.calls, names)

	return nil
}

func moduleSource(dir string, compiler plugins.Compiler) *plugins.ModuleSource {
	return &plugins.ModuleSource{
		Compiler: compiler, Cache: builder.FileCache{Cache: cache.New(dir, cache.DefaultLimit)}, Log: slog.New(slog.DiscardHandler),
	}
}

// TestModuleCompilesWhatIsMissing: in one go, and never twice.
func TestModuleCompilesWhatIsMissing(t *testing.T) {
	t.Parallel()

	compiler := &copier{t: t}
	dir := t.TempDir()
	source := moduleSource(dir, compiler)

	for _, names := range [][]string{{"static"}, {"host-local", "static", "vlan"}, {"vlan", "static"}} {
		work := t.TempDir()

		files, err := source.Provide(t.Context(), loadPin(t), "amd64", selection(t, names...), work)
		if err != nil {
			t.Fatal(err)
		}

		if files.Unpinned || len(files.ByName) != len(names) {
			t.Errorf("files are %+v", files)
		}

		for _, file := range files.ByName {
			if info, err := os.Stat(file.Path); err != nil || info.Mode() != 0o755 || strings.HasPrefix(file.Path, work) {
				t.Errorf("%s: %v %v", file.Path, info.Mode(), err)
			}
		}
	}

	if diff := cmp.Diff([][]string{{"static"}, {"host-local", "vlan"}}, compiler.calls); diff != "" {
		t.Errorf("compiled (-want +got):\n%s", diff)
	}

	// What was damaged in the cache is compiled again, and another pin shares nothing with this one.
	cached, err := filepath.Glob(filepath.Join(dir, "plugins", "*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range cached {
		if err := os.Truncate(name, 1000); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := source.Provide(t.Context(), loadPin(t), "amd64", selection(t, "vlan"), t.TempDir()); err != nil {
		t.Error(err)
	}

	other := loadPin(t)
	other.Module.GoModSum = "h1:other"

	if _, err := source.Provide(t.Context(), other, "amd64", selection(t, "vlan"), t.TempDir()); err != nil {
		t.Error(err)
	}

	if diff := cmp.Diff([][]string{{"vlan"}, {"vlan"}}, compiler.calls[2:]); diff != "" {
		t.Errorf("compiled afterwards (-want +got):\n%s", diff)
	}
}

// TestModuleRefusesOtherPrograms changes the build info inside real plugins: what is believed is what the
// shipped bytes say, not what was asked for.
func TestModuleRefusesOtherPrograms(t *testing.T) {
	t.Parallel()

	pin := loadPin(t)
	otherSum := strings.Replace(pin.Module.Sum, "h1:8", "h1:9", 1)

	for name, test := range map[string]struct{ from, to, want string }{
		"version":      {"plugins\tv1.9.1\t", "plugins\tv1.9.0\t", `module version "v1.9.0" instead of "v1.9.1"`},
		"sum":          {pin.Module.Sum, otherSum, `module sum "` + otherSum + `" instead of "` + pin.Module.Sum + `"`},
		"module":       {"mod\tgithub.com/containernetworking/", "mod\tgithub.com/containernetw0rking/", `module "github.com/containernetw0rking/plugins" instead of "github.com/containernetworking/plugins"`},
		"package":      {"path\tgithub.com/containernetworking/plugins/plugins/ipam/static", "path\tgithub.com/containernetworking/plugins/plugins/ipam/statik", `package "github.com/containernetworking/plugins/plugins/ipam/statik" instead of "github.com/containernetworking/plugins/plugins/ipam/static"`},
		"level":        {"GOAMD64=v1", "GOAMD64=v3", `GOAMD64 "v3" instead of "v1"`},
		"cgo":          {"CGO_ENABLED=0", "CGO_ENABLED=1", `CGO_ENABLED "1" instead of "0"`},
		"system":       {"GOOS=linux", "GOOS=plan9", `GOOS "plan9" instead of "linux"`},
		"architecture": {"GOARCH=amd64", "GOARCH=arm64", `GOARCH "arm64" instead of "amd64"`},
		"paths":        {"-trimpath=true", "-trimpath=nope", `-trimpath "nope" instead of "true"`},
		"tags":         {"-buildmode=exe", "-tags=abcdefgh", `-tags "abcdefgh" instead of ""`},
		"FIPS":         {"-compiler=gc", "GOFIPS140=v1", `GOFIPS140 "v1" instead of ""`},
		"experiment":   {"-buildmode=exe", "GOEXPERIMENT=x", `GOEXPERIMENT "x" instead of ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			source := moduleSource(dir, &copier{t: t, change: func(program []byte) []byte {
				if len(test.from) != len(test.to) || !bytes.Contains(program, []byte(test.from)) {
					t.Fatalf("cannot replace %q by %q", test.from, test.to)
				}

				return bytes.ReplaceAll(program, []byte(test.from), []byte(test.to))
			}})

			_, err := source.Provide(t.Context(), pin, "amd64", selection(t, "static"), t.TempDir())
			if want := "verifying static for amd64: build info has " + test.want; err == nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}

			checkEmpty(t, dir)
		})
	}
}

func TestModuleRefusesOtherFiles(t *testing.T) {
	t.Parallel()

	ls, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		program []byte
		want    string
	}{
		"script":        {[]byte("#!/bin/sh\n"), "verifying static for amd64: not an ELF program"},
		"no build info": {ls, "verifying static for amd64: the program has no Go build info"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			source := moduleSource(t.TempDir(), &copier{t: t, change: func([]byte) []byte { return test.program }})

			_, err := source.Provide(t.Context(), loadPin(t), "amd64", selection(t, "static"), t.TempDir())
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// TestVerifyBuilt holds a real plugin against pins of something else.
func TestVerifyBuilt(t *testing.T) {
	t.Parallel()

	name := realPlugins(t, "amd64").Files["static"].Path
	static := selection(t, "static")[0]

	if err := plugins.VerifyBuilt(name, loadPin(t), static, "amd64"); err != nil {
		t.Error(err)
	}

	for what, test := range map[string]struct {
		change func(*profiles.Pin)
		arch   string
		want   string
	}{
		"version": {func(p *profiles.Pin) { p.Version = "v1.10.0" }, "amd64", `module version "v1.9.1" instead of "v1.10.0"`},
		"sum":     {func(p *profiles.Pin) { p.Module.Sum = "h1:other" }, "amd64", `module sum "h1:8oU6WsIsU3bpnNZuvHp74a6cE1MJwbj2P7s4/yTUNlA=" instead of "h1:other"`},
		"module":  {func(p *profiles.Pin) { p.Module.Path = "example.org/p" }, "amd64", `package "github.com/containernetworking/plugins/plugins/ipam/static" instead of "example.org/p/plugins/ipam/static"`},
		"arch":    {func(*profiles.Pin) {}, "arm64", `GOARCH "amd64" instead of "arm64"`},
	} {
		pin := loadPin(t)
		test.change(&pin)

		err := plugins.VerifyBuilt(name, pin, static, test.arch)
		if want := "verifying static for " + test.arch + ": build info has " + test.want; err == nil || err.Error() != want {
			t.Errorf("%s: error is %v, want %s", what, err, want)
		}
	}
}

func TestModuleWithoutToolchain(t *testing.T) {
	t.Parallel()

	source := moduleSource(t.TempDir(), builder.NewToolchain(t.Context(), []string{"PATH=/nonexistent"}))

	_, err := source.Provide(t.Context(), loadPin(t), "amd64", selection(t, "static"), t.TempDir())

	const want = "source module compiles the plugins: no Go toolchain found in PATH (or take upstream's binaries with --source release)"
	if !errors.Is(err, gotool.ErrNoToolchain) || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestModuleForArm compiles for the architecture that no built-in profile builds by default.
func TestModuleForArm(t *testing.T) {
	t.Parallel()

	set, err := plugins.Collect(t.Context(), buildertest.Options(t, nil).Source, loadPin(t), "arm", selection(t, "static"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if got := set.Binaries["static"]; got.Arch != "arm" || got.Setting("GOARM") != "7" {
		t.Errorf("static is a program for %s, GOARM %q", got.Arch, got.Setting("GOARM"))
	}
}

// TestLeftOutPlugins: whoever needs one of them gets it by name.
func TestLeftOutPlugins(t *testing.T) {
	t.Parallel()

	wanted := selection(t, "dhcp", "dummy", "loopback", "tap")

	set, err := plugins.Collect(t.Context(), buildertest.Options(t, nil).Source, loadPin(t), "amd64", wanted, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if got := set.Manifest.Names(); !slices.Equal(got, []string{"dhcp", "dummy", "loopback", "tap"}) {
		t.Errorf("the set has %v", got)
	}

	if _, err := payload.Probe(t.Context(), set.Files["dhcp"].Path); err != nil {
		t.Error(err)
	}
}
