package builder_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// padded makes the merged program larger than it is. An ELF file may have a tail that nothing reads.
type padded struct {
	plugins.Merger
	tail int
}

func (p padded) ProvideMerged(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (plugins.File, error) {
	file, err := p.Merger.ProvideMerged(ctx, pin, arch, selection, dir)
	if err != nil {
		return file, err
	}

	data, err := os.ReadFile(file.Path)
	if err != nil {
		return file, err
	}

	file.Path = filepath.Join(dir, "padded")
	if err := os.WriteFile(file.Path, append(data, make([]byte, p.tail)...), 0o755); err != nil {
		return file, err
	}

	file.Digest, file.Size, err = payload.DigestFile(file.Path)

	return file, err
}

// mergedArchive builds a zstd tarball of merged plugins whose program has a tail, and returns its size.
func mergedArchive(t *testing.T, tail int, names ...string) (int64, error) {
	t.Helper()

	profile, err := profiles.Load("generic-linux")
	if err != nil {
		t.Fatal(err)
	}

	profile.Packaging, profile.Compression = profiles.Multicall, profiles.Zstd
	profile.Plugins.Without = names

	options := buildertest.Options(t, map[profiles.Format]builder.Format{profiles.FormatArchive: builder.Archive{}})
	options.Profiles, options.Architectures = []profiles.Profile{profile}, []string{"arm64"}
	options.Source = padded{options.Source.(plugins.Merger), tail}
	// Any small program does; the archive's installer is not what this is about.
	static := buildertest.Plugins(t, "arm64").Files["static"].Path
	options.Installer = func() (installer.Source, error) { return &installer.FileSource{Path: static}, nil }

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		return 0, err
	}

	for _, artifact := range report.Profiles[0].Artifacts {
		if artifact.Kind == builder.KindArchive {
			return artifact.Size, nil
		}
	}

	t.Fatalf("no archive in %+v", report)

	return 0, nil
}

// TestCopiesAreStoredOnce: copies of the merged program cost next to nothing as long as the window
// reaches back over one of them.
func TestCopiesAreStoredOnce(t *testing.T) {
	t.Parallel()

	one, err := mergedArchive(t, 0, without(t, "static")...)
	if err != nil {
		t.Fatal(err)
	}

	two, err := mergedArchive(t, 0, without(t, "static", "host-local")...)
	if err != nil {
		t.Fatal(err)
	}

	// host-local is a little code of its own.
	const most = 300_000
	if two-one > most {
		t.Errorf("one plugin has %d bytes, two have %d", one, two)
	}
}

// TestWindowIsAsserted: a program that grew out of the window fails the build instead of making a
// layer of fourteen full copies.
func TestWindowIsAsserted(t *testing.T) {
	t.Parallel()

	const window = 8 << 20

	_, err := mergedArchive(t, window, without(t, "static")...)
	if err == nil || !strings.Contains(err.Error(), "building generic-linux: the merged program has ") ||
		!strings.Contains(err.Error(), "more than the compression window of 8388608: its copies would not be stored once") {
		t.Errorf("error is %v", err)
	}
}
