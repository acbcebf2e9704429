package plugins_test

import (
	"context"
	"debug/buildinfo"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

func readBuildInfo(t *testing.T, name string) *debug.BuildInfo {
	t.Helper()

	info, err := buildinfo.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}

	return info
}

// TestMergedIsLinkedFromTheSame: the merged program is made of the modules that the separate ones are
// made of, version for version and sum for sum, with the same settings and the same GODEBUG defaults.
func TestMergedIsLinkedFromTheSame(t *testing.T) {
	t.Parallel()

	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			separate, merged := buildertest.Plugins(t, arch), buildertest.MergedPlugins(t, arch)

			modules, settings := make(map[string]string), make(map[string]string)

			for _, file := range separate.Files {
				info := readBuildInfo(t, file.Path)

				for _, module := range append(info.Deps, &info.Main) {
					modules[module.Path] = module.Version + " " + module.Sum
				}

				for _, setting := range info.Settings {
					if other, ok := settings[setting.Key]; ok && other != setting.Value {
						t.Fatalf("separate plugins have %s %q and %q", setting.Key, other, setting.Value)
					}

					settings[setting.Key] = setting.Value
				}
			}

			info := readBuildInfo(t, merged.Files["bridge"].Path)

			linked := make(map[string]string)
			for _, module := range info.Deps {
				linked[module.Path] = module.Version + " " + module.Sum
			}

			if diff := cmp.Diff(modules, linked); diff != "" {
				t.Errorf("modules (-separate +merged):\n%s", diff)
			}

			const pinned = "v1.9.1 h1:8oU6WsIsU3bpnNZuvHp74a6cE1MJwbj2P7s4/yTUNlA="
			if got := linked["github.com/containernetworking/plugins"]; got != pinned {
				t.Errorf("build info shows the module as %s, want %s", got, pinned)
			}

			set := make(map[string]string)
			for _, setting := range info.Settings {
				set[setting.Key] = setting.Value
			}

			if diff := cmp.Diff(settings, set); diff != "" {
				t.Errorf("settings (-separate +merged):\n%s", diff)
			}

			// The module's go line decides on them; without any the comparison above would prove nothing.
			if set["DefaultGODEBUG"] == "" {
				t.Error("no GODEBUG defaults are recorded")
			}
		})
	}
}

// TestMergedTwice: two links that share no cache of ours give the same bytes.
func TestMergedTwice(t *testing.T) {
	t.Parallel()

	want := buildertest.MergedPlugins(t, "arm64").Files["bridge"].Digest

	options := buildertest.Options(t, nil)
	toolchain := builder.NewToolchain(t.Context(), os.Environ())
	source := &plugins.ModuleSource{
		Compiler: toolchain, Merge: toolchain, Log: slog.New(slog.DiscardHandler),
		Cache: builder.FileCache{Cache: cache.New(t.TempDir(), cache.DefaultLimit)},
	}

	all, err := options.Pin.Select(nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	file, err := source.ProvideMerged(t.Context(), options.Pin, "arm64", all, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if file.Digest != want {
		t.Errorf("digest is %s, want %s", file.Digest, want)
	}
}

// TestMergeOfLeftOut: of what is left out by default, dhcp alone cannot be merged, and the error says why.
func TestMergeOfLeftOut(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{
		"dhcp":     "plugin dhcp cannot be merged: it imports flag, whose state is the whole program's",
		"dummy":    "",
		"loopback": "",
		"tap":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			pin := loadPin(t)

			chosen, err := pin.Select([]string{name}, nil)
			if err != nil {
				t.Fatal(err)
			}

			// Merging stops before anything is compiled.
			stop := errors.New("generated")
			source := &plugins.ModuleSource{
				Compiler: builder.NewToolchain(t.Context(), os.Environ()), Merge: generateOnly{builder.NewToolchain(t.Context(), os.Environ()), stop},
				Log: slog.New(slog.DiscardHandler), Cache: builder.FileCache{Cache: cache.New(t.TempDir(), cache.DefaultLimit)},
			}

			_, err = source.ProvideMerged(t.Context(), pin, "amd64", chosen, t.TempDir())

			switch {
			case err == nil:
				t.Error("no error")
			case want == "" && !errors.Is(err, stop), want != "" && !strings.Contains(err.Error(), want):
				t.Errorf("error is %v, want %q", err, want)
			}
		})
	}
}

// generateOnly is a compiler that gives up once the sources are generated.
type generateOnly struct {
	*builder.Toolchain
	err error
}

func (g generateOnly) CompileMerged(ctx context.Context, pin profiles.Pin, arch, ldflags, out string,
	generate func(moduleDir, name string) (map[string][]byte, error),
) error {
	return g.Toolchain.CompileMerged(ctx, pin, arch, ldflags, out, func(moduleDir, name string) (map[string][]byte, error) {
		if _, err := generate(moduleDir, name); err != nil {
			return nil, err
		}

		return nil, g.err
	})
}

// TestMergeNeedsSources: no source of finished binaries can merge, and each says what to do.
func TestMergeNeedsSources(t *testing.T) {
	t.Parallel()

	for kind, source := range map[string]plugins.Source{
		"archive": &plugins.ArchiveSource{Path: "/nonexistent"},
		"release": &plugins.ReleaseSource{},
	} {
		_, err := plugins.CollectMerged(t.Context(), source, loadPin(t), "amd64", selection(t, few...), "", t.TempDir())

		want := "packaging multicall compiles the plugins, which source " + kind + " does not: use --source module, or --packaging separate"
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

// TestRenamedBehindAWrapper is the one thing that a merged plugin cannot do (docs/packaging.md): under
// another name it does not know which plugin it is. A wrapper that sets argv[0] keeps it working.
func TestRenamedBehindAWrapper(t *testing.T) {
	t.Parallel()

	bash := buildertest.RequireTool(t, "bash")
	renamed := filepath.Join(t.TempDir(), "static-real")

	if err := os.Symlink(collectMerged(t, "amd64", "").Files["static"].Path, renamed); err != nil {
		t.Fatal(err)
	}

	for script, want := range map[string]string{
		`exec "$0"`:           `none of them is called "static-real"`,
		`exec -a static "$0"`: "CNI static plugin v1.9.1\n",
	} {
		out, err := exec.CommandContext(t.Context(), bash, "-c", script, renamed).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, printed %q, want %q", script, err, out, want)
		}
	}
}
