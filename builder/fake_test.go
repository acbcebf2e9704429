package builder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// fakeFormat writes whatever a test wants, so that these tests are about the output directory alone.
type fakeFormat func(ctx context.Context, target *builder.Target, out *builder.Output) error

func (fakeFormat) NeedsInstaller() bool             { return false }
func (fakeFormat) SBOMName(profiles.Profile) string { return "test" }

func (f fakeFormat) Write(ctx context.Context, target *builder.Target, out *builder.Output) error {
	return f(ctx, target, out)
}

// content writes PROFILE.tar with some text.
func content(text string) fakeFormat {
	return func(ctx context.Context, target *builder.Target, out *builder.Output) error {
		return out.File(ctx, builder.Artifact{Name: target.Profile.Name + ".tar", Kind: builder.KindArchive}, func(w io.Writer) error {
			_, err := io.WriteString(w, text)

			return err
		})
	}
}

// profileOf is the generic-linux profile under another name, for amd64 only.
func profileOf(t *testing.T, name string, replacements ...string) profiles.Profile {
	t.Helper()

	data, err := profiles.Source("generic-linux")
	if err != nil {
		t.Fatal(err)
	}

	// The fake sources here cannot merge plugins.
	pairs := append([]string{
		"name: generic-linux", "name: " + name, "[amd64, arm64]", "[amd64]", "packaging: multicall", "packaging: separate",
	}, replacements...)

	profile, err := profiles.Parse(name+".yaml", []byte(strings.NewReplacer(pairs...).Replace(string(data))))
	if err != nil {
		t.Fatal(err)
	}

	return profile
}

// without are all plugins but one, which is enough where plugins do not matter.
func without(t *testing.T, keep ...string) []string {
	t.Helper()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	kept := make(map[string]bool)
	for _, name := range keep {
		kept[name] = true
	}

	var names []string

	for _, plugin := range pin.Plugins {
		if !kept[plugin.Name] {
			names = append(names, plugin.Name)
		}
	}

	return names
}

var pluginSets struct {
	sync.Mutex
	byArch map[string]*plugins.Set
}

// realPlugins is the real plugin set of an architecture, looked at once for all tests.
func realPlugins(t *testing.T, arch string) *plugins.Set {
	t.Helper()

	pluginSets.Lock()
	defer pluginSets.Unlock()

	if pluginSets.byArch[arch] == nil {
		if pluginSets.byArch == nil {
			pluginSets.byArch = make(map[string]*plugins.Set)
		}

		pluginSets.byArch[arch] = buildertest.Plugins(t, arch)
	}

	return pluginSets.byArch[arch]
}

// realFiles is a source of real plugins that costs nothing: they are compiled already.
type realFiles struct{ t *testing.T }

func (realFiles) Kind() string { return "directory" }

func (s realFiles) Provide(_ context.Context, _ profiles.Pin, arch string, selection []profiles.Plugin, _ string) (plugins.Files, error) {
	set, files := realPlugins(s.t, arch), plugins.Files{ByName: make(map[string]plugins.File)}
	for _, plugin := range selection {
		files.ByName[plugin.Name] = set.Files[plugin.Name]
	}

	return files, nil
}

// build builds profiles with a fake format into a directory.
func build(t *testing.T, out string, format fakeFormat, names ...string) error {
	t.Helper()

	_, err := builder.Build(t.Context(), fakeOptions(t, out, format, names...))

	return err
}

func fakeOptions(t *testing.T, out string, format fakeFormat, names ...string) builder.Options {
	t.Helper()

	options := buildertest.Options(t, map[profiles.Format]builder.Format{profiles.FormatArchive: format})
	options.Source = realFiles{t}
	options.Plugins.Without = without(t, "static")
	options.Out = out

	for _, name := range names {
		options.Profiles = append(options.Profiles, profileOf(t, name))
	}

	return options
}

// snapshot maps every path below a directory to its type, mode and content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()

	all := make(map[string]string)

	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}

		all[relative] = info.Mode().String()

		if info.Mode().IsRegular() {
			digest, size, err := payload.DigestFile(name)
			all[relative] += fmt.Sprintf(" %s %d", digest, size)

			return err
		}

		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}

	return all
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()

	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// unpinned is a source whose files nothing ties to the pin.
type unpinned struct{ realFiles }

func (s unpinned) Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (plugins.Files, error) {
	files, err := s.realFiles.Provide(ctx, pin, arch, selection, dir)
	files.Unpinned = true

	return files, err
}
