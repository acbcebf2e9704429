package oci_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
)

// plainImage is an image of uncompressed, compressed or mislabelled layers.
func plainImage(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()

	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		t.Fatal(err)
	}

	return image
}

func smallTar(t testing.TB, files ...string) []byte {
	t.Helper()

	tree := &rootfs.Tree{}
	for _, name := range files {
		if err := tree.Add(name, 0o644, rootfs.Bytes([]byte("content of "+name))); err != nil {
			t.Fatal(err)
		}
	}

	var out bytes.Buffer
	if err := tree.WriteTar(t.Context(), &out, epoch); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// save writes an index as a layout.
func save(t *testing.T, index v1.ImageIndex) string {
	t.Helper()

	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}

	return dir
}

func appended(index v1.ImageIndex, items ...mutate.Appendable) v1.ImageIndex {
	for _, item := range items {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: item})
	}

	return index
}

func list(t *testing.T, image v1.Image) ([]string, error) {
	t.Helper()

	var names []string

	err := oci.Files(t.Context(), image, rootfs.DefaultReadLimits, func(h *tar.Header, r io.Reader) error {
		data, err := io.ReadAll(r)
		names = append(names, h.Name)

		if err == nil && string(data) != "content of "+h.Name {
			t.Errorf("%s holds %q", h.Name, data)
		}

		return err
	})

	return names, err
}

// TestFilesWhateverTheLabel: layers are read by what they are, since some writers label zstd as gzip.
func TestFilesWhateverTheLabel(t *testing.T) {
	t.Parallel()

	image := plainImage(t,
		static.NewLayer(compress(t, oci.Zstd, smallTar(t, "a", "b")), types.OCILayer),
		static.NewLayer(compress(t, oci.Gzip, smallTar(t, "c")), types.OCILayerZStd),
		static.NewLayer(smallTar(t, "d"), types.OCILayer),
	)

	images, err := oci.ReadLayout(save(t, appended(empty.Index, image)))
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images: %v", len(images), err)
	}

	for _, image := range []v1.Image{image, images[0]} {
		names, err := list(t, image)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, names); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

// TestAlteredBlobs changes each blob of a layout; none may pass.
func TestAlteredBlobs(t *testing.T) {
	t.Parallel()

	alter := map[string]func(data []byte) []byte{
		"flipped byte": func(data []byte) []byte {
			altered := bytes.Clone(data)
			altered[len(altered)/2] ^= 1

			return altered
		},
		"bytes added": func(data []byte) []byte { return append(bytes.Clone(data), "      \n"...) },
		"bytes lost":  func(data []byte) []byte { return data[:len(data)-1] },
		"emptied":     func([]byte) []byte { return nil },
	}

	for _, compression := range []oci.Compression{oci.None, oci.Gzip, oci.Zstd} {
		dir := save(t, appended(empty.Index, plainImage(t, static.NewLayer(compress(t, compression, smallTar(t, "a", "b")), types.OCILayer))))

		blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
		if err != nil || len(blobs) != 3 {
			t.Fatalf("blobs are %q: %v", blobs, err)
		}

		for _, blob := range blobs {
			data, err := os.ReadFile(blob)
			if err != nil {
				t.Fatal(err)
			}

			for name, change := range alter {
				if err := os.WriteFile(blob, change(data), 0o644); err != nil {
					t.Fatal(err)
				}

				images, err := oci.ReadLayout(dir)
				if err == nil {
					err = oci.Files(t.Context(), images[0], rootfs.DefaultReadLimits, func(*tar.Header, io.Reader) error { return nil })
				}

				if err == nil || !strings.Contains(err.Error(), filepath.Base(blob)) {
					t.Errorf("%s layer, %s: error is %v, want one that names blob %s", compression, name, err, filepath.Base(blob))
				}
			}

			if err := os.WriteFile(blob, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}

		images, err := oci.ReadLayout(dir)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := list(t, images[0]); err != nil {
			t.Errorf("restored, but: %v", err)
		}
	}
}

func TestFilesPassesErrorsOn(t *testing.T) {
	t.Parallel()

	image, stop := plainImage(t, static.NewLayer(smallTar(t, "a"), types.OCILayer)), errors.New("stop")

	if err := oci.Files(t.Context(), image, rootfs.DefaultReadLimits, func(*tar.Header, io.Reader) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}

	err := oci.Files(t.Context(), image, rootfs.ReadLimits{Entries: 10, FileSize: 3, TotalSize: 3}, func(*tar.Header, io.Reader) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `tar entry "a" has 12 bytes, more than 3`) {
		t.Errorf("error is %v", err)
	}
}

// A manifest can list one small layer very often.
func TestLimitsAreForAllLayers(t *testing.T) {
	t.Parallel()

	layer := static.NewLayer(smallTar(t, "a"), types.OCILayer)
	image := plainImage(t, layer, layer, layer)

	for want, limits := range map[string]rootfs.ReadLimits{
		"":                      {Entries: 3, FileSize: 12, TotalSize: 36},
		"more than 0 entries":   {Entries: 2, FileSize: 12, TotalSize: 36},
		"to more than 11 bytes": {Entries: 3, FileSize: 12, TotalSize: 35},
	} {
		err := oci.Files(t.Context(), image, limits, func(*tar.Header, io.Reader) error { return nil })
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestReadLayout(t *testing.T) {
	t.Parallel()

	image := func(name string) v1.Image { return plainImage(t, static.NewLayer(smallTar(t, name), types.OCILayer)) }
	// What cosign writes: an OCI manifest whose configuration is no image's.
	signature := mutate.ConfigMediaType(image("signature"), "application/vnd.dev.sigstore.bundle")

	nested := func(depth int) v1.ImageIndex {
		index := appended(empty.Index, image("x"))
		for range depth {
			index = appended(empty.Index, index)
		}

		return index
	}

	var many []mutate.Appendable
	for i := range 1001 {
		many = append(many, image(fmt.Sprint(i)))
	}

	for name, test := range map[string]struct {
		index v1.ImageIndex
		count int
		want  string
	}{
		"flat":            {appended(empty.Index, image("a"), image("b")), 2, ""},
		"nested":          {appended(empty.Index, image("a"), appended(empty.Index, image("b"), image("c"))), 3, ""},
		"signature":       {appended(empty.Index, signature, image("a")), 1, ""},
		"deep":            {nested(4), 1, ""},
		"too deep":        {nested(5), 0, "indexes are nested too deeply"},
		"too many":        {appended(empty.Index, many...), 0, "more than 1000 entries"},
		"empty":           {empty.Index, 0, "holds no image"},
		"signatures only": {appended(empty.Index, signature), 0, "holds no image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := save(t, test.index)

			images, err := oci.ReadLayout(dir)
			if len(images) != test.count || (err == nil) != (test.want == "") {
				t.Fatalf("%d images: %v", len(images), err)
			}

			if err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// TestReadLayoutBomb: a few small blobs that list each other many times would take ages to walk.
func TestReadLayoutBomb(t *testing.T) {
	t.Parallel()

	dir := save(t, empty.Index)
	index := []byte(`{"schemaVersion": 2, "manifests": []}`)

	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		t.Fatal(err)
	}

	for range 4 {
		digest := sha(index)
		if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", digest.Hex), index, 0o644); err != nil {
			t.Fatal(err)
		}

		entry := fmt.Sprintf(`{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": %q, "size": %d}`, digest, len(index))
		index = fmt.Appendf(nil, `{"schemaVersion": 2, "manifests": [%s]}`, strings.Repeat(entry+",", 999)+entry)
	}

	if err := os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := oci.ReadLayout(dir); err == nil || !strings.Contains(err.Error(), "more than 1000 entries") {
		t.Errorf("error is %v", err)
	}
}

func TestReadLayoutNotThere(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "absent")
	if _, err := oci.ReadLayout(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error is %v", err)
	}

	broken := save(t, empty.Index)
	if err := os.WriteFile(filepath.Join(broken, "index.json"), []byte("<html>"), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := oci.ReadLayout(broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("error is %v", err)
	}
}

// TestUnpackArchiveTakesOnlyALayout: whatever an archive holds beside a layout is not written at all.
func TestUnpackArchiveTakesOnlyALayout(t *testing.T) {
	t.Parallel()

	blob := "blobs/sha256/" + strings.Repeat("a", 64)

	var out bytes.Buffer

	archive := tar.NewWriter(&out)

	for _, h := range []tar.Header{
		{Name: "oci-layout"}, {Name: "./index.json"}, {Name: blob},
		{Name: "../escaped"}, {Name: "/escaped"}, {Name: "blobs/sha256/../../../escaped"}, {Name: "blobs/../../index.json"},
		{Name: "blobs/sha256/escaped"}, {Name: "blobs/SHA256/" + strings.Repeat("a", 64)}, {Name: blob + "/escaped"}, {Name: "manifest.json"},
		{Name: "blobs/sha256/" + strings.Repeat("b", 64), Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"},
		{Name: "blobs/sha256/" + strings.Repeat("c", 64), Typeflag: tar.TypeLink, Linkname: "oci-layout"},
		{Name: "blobs/sha256", Typeflag: tar.TypeSymlink, Linkname: "/tmp"},
		{Name: "blobs/", Typeflag: tar.TypeDir}, {Name: "index.json", Typeflag: tar.TypeFifo},
	} {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, 1
		}

		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}

		if _, err := archive.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "layout")
	if err := oci.UnpackArchive(t.Context(), bytes.NewReader(out.Bytes()), dir, rootfs.DefaultReadLimits); err != nil {
		t.Fatal(err)
	}

	zero := sha([]byte{0}).Hex

	want := map[string]string{"layout/oci-layout": zero, "layout/index.json": zero, "layout/" + blob: zero}
	if diff := cmp.Diff(want, contents(t, filepath.Dir(dir))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	limits := rootfs.ReadLimits{Entries: 2, FileSize: 10, TotalSize: 10}
	if err := oci.UnpackArchive(t.Context(), bytes.NewReader(out.Bytes()), t.TempDir(), limits); err == nil || err.Error() != "tar archive has more than 2 entries" {
		t.Errorf("error is %v", err)
	}
}
