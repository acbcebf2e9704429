package oci_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/cnibake/cnibake/builder/oci"
)

// largeImage is an image for an architecture with a layer of layerSize bytes, which cost nothing to make.
func largeImage(t *testing.T, arch string) oci.Variant {
	t.Helper()

	var layer bytes.Buffer

	archive := tar.NewWriter(&layer)

	if err := archive.WriteHeader(&tar.Header{Name: "file", Typeflag: tar.TypeReg, Mode: 0o644, Size: layerSize}); err != nil {
		t.Fatal(err)
	}

	if _, err := archive.Write(bytes.Repeat(fmt.Appendf(nil, "%16s", arch), layerSize/16)); err != nil {
		t.Fatal(err)
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	image, err := oci.NewImage(static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer), oci.ImageConfig{Arch: arch, Created: epoch})
	if err != nil {
		t.Fatal(err)
	}

	return oci.Variant{Arch: arch, Image: image}
}

// layerSize is more than any buffer on the way of a blob.
const layerSize = 1 << 20

// flatLayout is what `cnibake build` writes, for two architectures.
func flatLayout(t *testing.T) string {
	t.Helper()

	return writeLayout(t, largeImage(t, "arm64"), largeImage(t, "amd64"))
}

func openLayout(t *testing.T, dir string, options ...oci.LayoutOption) *oci.Layout {
	t.Helper()

	l, err := oci.OpenLayout(dir, options...)
	if err != nil {
		t.Fatal(err)
	}

	return l
}

func subjects(t *testing.T, store oci.Store) []oci.Subject {
	t.Helper()

	all, err := store.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	return all
}

func digests(t *testing.T, store oci.Store) []string {
	t.Helper()

	var all []string
	for _, subject := range subjects(t, store) {
		all = append(all, fmt.Sprint(subject.Descriptor.Digest, " ", subject.Descriptor.Platform))
	}

	return all
}

func TestFlatLayoutPublishesOneIndex(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	before := contents(t, dir)
	all := subjects(t, openLayout(t, dir))

	if len(all) != 3 || all[0].Index == nil || all[1].Image == nil || all[2].Image == nil {
		t.Fatalf("subjects are %+v", all)
	}

	if err := validate.Index(all[0].Index, validate.Fast); err != nil {
		t.Error(err)
	}

	raw, err := all[0].Index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}

	var want strings.Builder

	fmt.Fprintf(&want, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[`)

	for i, arch := range []string{"amd64", "arm64"} {
		d := all[i+1].Descriptor
		fmt.Fprintf(&want, `{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":%d,"digest":"%s","platform":{"architecture":"%s","os":"linux"}},`, d.Size, d.Digest, arch)
	}

	if diff := cmp.Diff(strings.TrimSuffix(want.String(), ",")+`],"annotations":{"org.opencontainers.image.title":"test"}}`, string(raw)); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}

	if got := sha(raw); got != all[0].Descriptor.Digest || int64(len(raw)) != all[0].Descriptor.Size {
		t.Errorf("descriptor is %+v, digest %s", all[0].Descriptor, got)
	}

	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("opening changed the layout (-before +after):\n%s", diff)
	}

	// The order of index.json does not matter.
	again := writeLayout(t, largeImage(t, "amd64"), largeImage(t, "arm64"))
	if diff := cmp.Diff(digests(t, openLayout(t, dir)), digests(t, openLayout(t, again))); diff != "" {
		t.Errorf("another order (-first +second):\n%s", diff)
	}
}

func TestLayoutRoots(t *testing.T) {
	t.Parallel()

	amd64, arm64 := largeImage(t, "amd64"), largeImage(t, "arm64")
	flat := subjects(t, openLayout(t, writeLayout(t, amd64, arm64)))[0]

	named := func(name string, manifest mutate.Appendable) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: manifest, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": name}}}
	}
	full := mutate.IndexAddendum{Add: flat.Index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": "v1", "io.containerd.image.name": "registry.example/talos:v1",
	}}}
	of := func(adds ...mutate.IndexAddendum) string {
		return save(t, mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), adds...))
	}

	several := of(named("a", flat.Index), full, named("c", amd64.Image), named("d", amd64.Image))

	for name, test := range map[string]struct {
		dir, name string
		want      v1.Hash
		images    int
		wantErr   string
	}{
		"nested index":            {dir: of(named("x", flat.Index)), want: flat.Descriptor.Digest, images: 2},
		"index by its short name": {dir: several, name: "v1", want: flat.Descriptor.Digest, images: 2},
		"index by its long name":  {dir: several, name: "registry.example/talos:v1", want: flat.Descriptor.Digest, images: 2},
		"image by name":           {dir: several, name: "c", images: 1},
		"one of a flat layout":    {dir: writeLayout(t, amd64, arm64), name: "v1.9.1-1-arm64", images: 1},
		"no platform":             {dir: of(named("x", amd64.Image)), images: 1},
		"platforms from configs":  {dir: of(named("x", amd64.Image), named("y", arm64.Image)), images: 2},
		"several":                 {dir: several, wantErr: "choose one of a, registry.example/talos:v1, c, d"},
		"one platform twice":      {dir: of(named("x", amd64.Image), named("y", amd64.Image)), wantErr: "more than one image for a platform: choose one of x, y"},
		"no such name":            {dir: several, name: "z", wantErr: "nothing in it is named z; there is a, registry.example/talos:v1, c, d"},
		"empty":                   {dir: of(), wantErr: "holds no image"},
		"not a layout":            {dir: t.TempDir(), wantErr: "not an OCI image layout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var options []oci.LayoutOption
			if test.name != "" {
				options = append(options, oci.WithName(test.name))
			}

			l, err := oci.OpenLayout(test.dir, options...)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) || !strings.Contains(err.Error(), test.dir) {
					t.Errorf("error is %v, want %q", err, test.wantErr)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			all := subjects(t, l)
			if len(all) != test.images+1 || all[0].Index == nil || all[0].Descriptor.Digest != test.want && test.want.Hex != "" {
				t.Errorf("subjects are %+v", all)
			}

			for _, image := range all[1:] {
				if image.Descriptor.Platform == nil || image.Descriptor.Platform.OS != "linux" {
					t.Errorf("%s has the platform %v", image.Descriptor.Digest, image.Descriptor.Platform)
				}
			}
		})
	}
}
