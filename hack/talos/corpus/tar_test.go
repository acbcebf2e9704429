package corpus

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/imager/profile"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/imager"
	"github.com/cnibake/cnibake/hack/talos/needs"
)

func TestMain(m *testing.M) { os.Exit(artifact.Run(m)) }

// good is what the corpus is made from: a whole extension with one small plugin.
type good struct {
	dist    *artifact.Dist
	archive Archive
	foreign foreign
}

func newGood(t *testing.T) good {
	t.Helper()

	dist := artifact.Build(t, artifact.TalosReadonly, "--without",
		"bandwidth,bridge,firewall,host-device,host-local,ipvlan,macvlan,portmap,ptp,sbr,tuning,vlan,vrf")

	g := good{dist: dist}

	var err error
	if g.archive, err = Read(dist.Tar(artifact.TalosReadonly, artifact.AMD64)); err != nil {
		t.Fatal(err)
	}

	other, err := Read(dist.Tar(artifact.TalosReadonly, artifact.ARM64))
	if err != nil {
		t.Fatal(err)
	}

	g.foreign.arm64 = other[other.at(plugin)].Body

	// Any program of this machine; mksquashfs is needed anyway.
	if g.foreign.dynamic, err = os.ReadFile("/usr/bin/mksquashfs"); err != nil {
		needs.Missing(t, "a dynamically linked program: "+err.Error())
	}

	return g
}

// release is one line of Talos.
type release struct {
	version string
	load    func(ctx context.Context, tar, parent string) (string, error)
}

func releases(t *testing.T) []release {
	t.Helper()

	extern := func(dir, version string) release {
		extract := program(artifact.Program(t, filepath.Join("..", "archiver", dir), "."))

		return release{version, func(ctx context.Context, tar, parent string) (string, error) {
			return load(ctx, extract, version, tar, parent)
		}}
	}

	return []release{
		extern("v1.12", older),
		{middle, func(ctx context.Context, tar, parent string) (string, error) {
			return unpack(ctx, profile.ContainerAsset{TarballPath: tar}, artifact.AMD64, parent)
		}},
		extern("v1.14", newer),
	}
}

// TestTar runs every broken tar through three lines of Talos and then through lint.
func TestTar(t *testing.T) {
	needs.Root(t) // 1.12 sets labels on the file system

	g, lines := newGood(t), releases(t)

	for _, c := range tarCases(g.foreign) {
		t.Run(c.Name, func(t *testing.T) {
			archive := c.Change(g.archive.clone())
			path := write(t, archive)

			want := []Outcome{c.Older, c.Middle, c.Newer}
			for i, line := range lines {
				got, why := judge(t, line, archive, path, c.Harm)
				t.Logf("%s: %s %s", line.version, got, why)

				if got != want[i] {
					t.Errorf("%s: %s, want %s", line.version, got, want[i])
				}

				if got != Accept {
					wantLint(t, path, true, line.version)
				}
			}

			if !slices.ContainsFunc(want, func(o Outcome) bool { return o != Accept }) {
				wantLint(t, path, c.Stricter, "")
			}
		})
	}
}

// judge says what a release makes of an archive, and why.
func judge(t *testing.T, line release, archive Archive, path, harm string) (Outcome, string) {
	t.Helper()

	dir, err := line.load(t.Context(), path, t.TempDir())
	if err != nil {
		return Reject, err.Error()
	}

	tree, err := imager.Tree(dir)
	if err != nil {
		t.Fatal(err)
	}

	found := damage(archive, tree)
	if harm != "" {
		found = append(found, harm)
	}

	if len(found) > 0 {
		return Ruin, strings.Join(found, "; ")
	}

	return Accept, ""
}

func write(t *testing.T, archive Archive) string {
	t.Helper()

	content, err := archive.Bytes()
	if err != nil {
		t.Fatal(err)
	}

	return writeBytes(t, content)
}

func writeBytes(t *testing.T, content []byte) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "extension-amd64.tar")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}

	return path
}
