package oci_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
)

func writeLayout(t *testing.T, variants ...oci.Variant) string {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "layout")
	if err := oci.WriteLayout(dir, "v1.9.1-1", map[string]string{"org.opencontainers.image.title": "test"}, variants); err != nil {
		t.Fatal(err)
	}

	return dir
}

// contents maps the files below a directory to their digests.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()

	files := make(map[string]string)

	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(dir, path)
		files[relative] = sha(data).Hex

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

func TestLayoutIsFlat(t *testing.T) {
	t.Parallel()

	variants := []oci.Variant{newImage(t, "amd64", oci.Gzip), newImage(t, "arm64", oci.Gzip), newImage(t, "arm", oci.Gzip)}
	dir := writeLayout(t, variants...)

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := validate.Index(index); err != nil {
		t.Error(err)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	if manifest.MediaType != types.OCIImageIndex || manifest.Annotations["org.opencontainers.image.title"] != "test" {
		t.Errorf("index is %+v", manifest)
	}

	// The Talos imager reads what index.json lists itself, by platform.
	type descriptor struct{ MediaType, Platform, Name, ArtifactType string }

	var got []descriptor
	for _, d := range manifest.Manifests {
		got = append(got, descriptor{string(d.MediaType), d.Platform.String(), d.Annotations["org.opencontainers.image.ref.name"], d.ArtifactType})
	}

	want := []descriptor{
		{"application/vnd.oci.image.manifest.v1+json", "linux/amd64", "v1.9.1-1-amd64", ""},
		{"application/vnd.oci.image.manifest.v1+json", "linux/arm64", "v1.9.1-1-arm64", ""},
		{"application/vnd.oci.image.manifest.v1+json", "linux/arm/v7", "v1.9.1-1-arm", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}

	for name, digest := range contents(t, dir) {
		if filepath.Dir(name) != "." && name != filepath.Join("blobs", "sha256", digest) {
			t.Errorf("blob %s has the digest %s", name, digest)
		}
	}

	if diff := cmp.Diff(contents(t, dir), contents(t, writeLayout(t, variants...))); diff != "" {
		t.Errorf("writing again gives other files (-first +second):\n%s", diff)
	}
}

func TestIsLayout(t *testing.T) {
	t.Parallel()

	dir := writeLayout(t)
	if !oci.IsLayout(dir) || oci.IsLayout(filepath.Join(dir, "blobs")) || oci.IsLayout(filepath.Join(dir, "oci-layout")) || oci.IsLayout(dir+"-absent") {
		t.Error("a layout is mistaken for something else, or something else for a layout")
	}
}

func writeArchive(t *testing.T, variant oci.Variant) []byte {
	t.Helper()

	var out bytes.Buffer

	work := t.TempDir()
	if err := oci.WriteArchive(t.Context(), &out, work, "registry.test/cni", "v1.9.1-1", variant, epoch); err != nil {
		t.Fatal(err)
	}

	if left := contents(t, work); len(left) > 0 {
		t.Errorf("left %v", left)
	}

	return out.Bytes()
}

func TestArchive(t *testing.T) {
	t.Parallel()

	variant := newImage(t, "amd64", oci.Gzip)
	archive := writeArchive(t, variant)

	if !bytes.Equal(archive, writeArchive(t, variant)) {
		t.Error("writing again gives other bytes")
	}

	dir := t.TempDir()
	if err := oci.UnpackArchive(t.Context(), bytes.NewReader(archive), dir, rootfs.DefaultReadLimits); err != nil {
		t.Fatal(err)
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := validate.Index(index); err != nil {
		t.Error(err)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{"org.opencontainers.image.ref.name": "v1.9.1-1", "io.containerd.image.name": "registry.test/cni:v1.9.1-1"}
	if diff := cmp.Diff(want, manifest.Manifests[0].Annotations); len(manifest.Manifests) != 1 || diff != "" {
		t.Errorf("%d images; names (-want +got):\n%s", len(manifest.Manifests), diff)
	}

	digest, err := variant.Image.Digest()
	if err != nil || manifest.Manifests[0].Digest != digest {
		t.Errorf("image is %s, want %s: %v", manifest.Manifests[0].Digest, digest, err)
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestArchiveFails(t *testing.T) {
	t.Parallel()

	work := t.TempDir()

	err := oci.WriteArchive(t.Context(), fullDisk{}, work, "registry.test/cni", "v1", newImage(t, "amd64", oci.Gzip), epoch)
	if !errors.Is(err, errFull) {
		t.Errorf("error is %v", err)
	}

	if left := contents(t, work); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Whoever may read the index may read the blobs.
func TestLayoutFilesHaveOneMode(t *testing.T) {
	t.Parallel()

	dir := writeLayout(t, newImage(t, "amd64", oci.Gzip))
	modes := make(map[fs.FileMode]int)

	for name := range contents(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}

		modes[info.Mode()]++
	}

	if len(modes) != 1 {
		t.Errorf("files have the modes %v", modes)
	}
}
