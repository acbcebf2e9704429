package imager_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/imager/profile"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/imager"
)

func TestMain(m *testing.M) { os.Exit(artifact.Run(m)) }

// TestAccept takes every artifact in every way the imager can, and expects the same tree each time.
func TestAccept(t *testing.T) {
	dist := artifact.Build(t, artifact.Profiles...)

	for _, shape := range shapes {
		ref := serve(t, dist.Layout(shape.profile))
		signed := sign(t, dist.Layout(shape.profile))

		for _, arch := range artifact.Architectures {
			assets := map[string]profile.ContainerAsset{
				"tarballPath": {TarballPath: dist.Tar(shape.profile, arch)},
				"ociPath":     {OCIPath: dist.Layout(shape.profile)},
				"imageRef":    {ImageRef: ref, ForceInsecure: true},
				"signed":      {OCIPath: signed},
			}

			for _, medium := range slices.Sorted(maps.Keys(assets)) {
				t.Run(path.Join(shape.profile, arch, medium), func(t *testing.T) {
					unpacked, err := imager.Unpack(t.Context(), assets[medium], arch, t.TempDir())
					if err != nil {
						t.Fatal(err)
					}

					plugins := dist.Plugins(t, shape.profile, arch)

					checkManifest(t, shape, dist, unpacked)
					checkConstraint(t, shape, unpacked)
					checkTree(t, shape, unpacked, plugins)
					checkLabels(t, shape, unpacked)
				})
			}
		}
	}
}

func checkManifest(t *testing.T, shape shape, dist *artifact.Dist, unpacked *imager.Unpacked) {
	t.Helper()

	metadata := unpacked.Extension.Manifest.Metadata

	if metadata.Name != shape.name || metadata.Version != dist.Version() {
		t.Errorf("the imager reads %s %s, want %s %s", metadata.Name, metadata.Version, shape.name, dist.Version())
	}
}

func checkConstraint(t *testing.T, shape shape, unpacked *imager.Unpacked) {
	t.Helper()

	for _, talos := range shape.supported {
		if err := unpacked.Validate(talos, false); err != nil {
			t.Errorf("Talos %s: %v", talos, err)
		}
	}

	if err := unpacked.Validate(shape.unsupported, false); err == nil {
		t.Errorf("Talos %s accepts an extension that is not for it", shape.unsupported)
	}

	if err := unpacked.Validate(imager.Version, true); (err == nil) != shape.catalogue {
		t.Errorf("the path check says %v, want acceptance: %t", err, shape.catalogue)
	}
}

// checkTree holds the whole tree to the plugins, the few files beside them, and their directories.
func checkTree(t *testing.T, shape shape, unpacked *imager.Unpacked, plugins []artifact.Plugin) {
	t.Helper()

	tree, err := imager.Tree(unpacked.Dir)
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]fs.FileMode{}

	for _, plugin := range plugins {
		name := path.Join("rootfs", shape.pluginDir, plugin.Name)
		want[name] = 0o755

		if got := tree[name].Digest; got != plugin.Digest {
			t.Errorf("%s is %s, build.json says %s", name, got, plugin.Digest)
		}
	}

	manifest := path.Join("rootfs", shape.pluginDir, ".cni-plugins.json")

	for _, name := range append(shape.extra, manifest, "manifest.yaml", "rootfs/usr/local/share/cni-plugins/LICENSE",
		path.Join("rootfs/usr/local/share/spdx", shape.name+".spdx.json")) {
		want[name] = 0o644
	}

	for _, name := range slices.Collect(maps.Keys(want)) {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			want[dir] = fs.ModeDir | 0o755

			if dir == "." {
				break
			}
		}
	}

	got := map[string]fs.FileMode{}
	for name, entry := range tree {
		got[name] = entry.Mode
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree after extraction (-want +got):\n%s", diff)
	}

	carried, err := artifact.ReadManifest(filepath.Join(unpacked.Dir, manifest))
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(plugins, carried); diff != "" {
		t.Errorf("build.json and %s differ (-build.json +manifest):\n%s", manifest, diff)
	}
}

func checkLabels(t *testing.T, shape shape, unpacked *imager.Unpacked) {
	t.Helper()

	tree, err := imager.Tree(filepath.Join(unpacked.Dir, "rootfs"))
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{}
	for name := range tree {
		want[path.Join("rootfs", name)] = shape.label(name)
	}

	if diff := cmp.Diff(want, unpacked.Labels); diff != "" {
		t.Errorf("SELinux labels (-want +got):\n%s", diff)
	}
}

// label is the one that a path below rootfs must carry.
func (s shape) label(name string) string {
	for name = path.Join("/", name); ; name = path.Dir(name) {
		if label, ok := s.labels[name]; ok {
			return label
		}
	}
}
