// Package buildertest builds real artifacts for tests. Plugins come from the pinned module; compiled
// programs and layers are kept in the user's cache directory, so that all test programs of a run, and
// later runs, share them.
package buildertest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// Build builds profiles with their own settings from the default pin and returns the output
// directory. change, when not nil, may alter the options before.
func Build(t testing.TB, formats map[profiles.Format]builder.Format, names []string, change func(*builder.Options)) (string, *builder.Report) {
	t.Helper()

	options := Options(t, formats)
	for _, name := range names {
		profile, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}

		options.Profiles = append(options.Profiles, profile)
	}

	if change != nil {
		change(&options)
	}

	unlock := lock(t)
	defer unlock()

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	return options.Out, report
}

// Options are those of an ordinary build into a new directory, without profiles.
func Options(t testing.TB, formats map[profiles.Format]builder.Format) builder.Options {
	t.Helper()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	workDir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	files := builder.FileCache{Cache: Cache(t)}
	toolchain := builder.NewToolchain(t.Context(), os.Environ())
	log := slog.New(slog.DiscardHandler)

	return builder.Options{
		Pin:    pin,
		Source: &plugins.ModuleSource{Compiler: toolchain, Merge: toolchain, Cache: files, Log: log},
		Installer: func() (installer.Source, error) {
			source, err := installer.Find(workDir, nil, toolchain)

			return &installer.CachedSource{Source: source, Toolchain: toolchain, Cache: files}, err
		},
		Formats:   formats,
		Packer:    oci.NewPacker(files, 2),
		Out:       filepath.Join(t.TempDir(), "dist"),
		Created:   time.Unix(0, 0).UTC(),
		Toolchain: toolchain.UsedVersion,
		Log:       log,
	}
}

// Plugins returns the real plugin set of an architecture. The files are for reading only.
func Plugins(t testing.TB, arch string) *plugins.Set {
	t.Helper()

	return collect(t, arch, plugins.Collect)
}

// MergedPlugins is Plugins linked into one program, a copy for each name.
func MergedPlugins(t testing.TB, arch string) *plugins.Set {
	t.Helper()

	return collect(t, arch, func(ctx context.Context, source plugins.Source, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (*plugins.Set, error) {
		return plugins.CollectMerged(ctx, source, pin, arch, selection, "", dir)
	})
}

type collector func(ctx context.Context, source plugins.Source, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (*plugins.Set, error)

func collect(t testing.TB, arch string, from collector) *plugins.Set {
	t.Helper()

	unlock := lock(t)
	defer unlock()

	options := Options(t, nil)

	selection, err := options.Pin.Select(nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	set, err := from(t.Context(), options.Source, options.Pin, arch, selection, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	return set
}

// Cache is the cache that all tests share.
func Cache(t testing.TB) *cache.Cache {
	t.Helper()

	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}

	return cache.New(filepath.Join(dir, "cnibake-test"), cache.DefaultLimit)
}

// lock keeps test programs that run at the same time from compiling the same plugins twice.
func lock(t testing.TB) func() {
	t.Helper()

	dir := Cache(t).Dir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}

	return func() { file.Close() }
}
