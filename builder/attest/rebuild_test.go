package attest_test

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
)

// rebuilt is a layout of images made anew from those of another: what somebody could have published who
// may do everything.
type rebuilt struct {
	*oci.Layout
	// renamed maps the hexadecimal digests of the originals to those of the copies.
	renamed map[string]string
}

// rebuild copies the images of a layout. edit may change, remove or add files; arch says for what the copy
// of each architecture's image is said to be.
func rebuild(t *testing.T, from *oci.Layout, edit func(arch string, files map[string][]byte), arch func(string) string) rebuilt {
	t.Helper()

	subjects, err := from.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	copied := rebuilt{renamed: make(map[string]string)}

	var variants []oci.Variant

	for _, subject := range subjects[1:] {
		original := subject.Descriptor.Platform.Architecture
		files := filesOf(t, subject.Image)

		if edit != nil {
			edit(original, files)
		}

		claimed := original
		if arch != nil {
			claimed = arch(original)
		}

		image, err := oci.NewImage(layerFrom(t, files), oci.ImageConfig{Arch: claimed})
		if err != nil {
			t.Fatal(err)
		}

		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}

		copied.renamed[subject.Descriptor.Digest.Hex] = digest.Hex
		variants = append(variants, oci.Variant{Arch: claimed, Image: image})
	}

	dir := filepath.Join(t.TempDir(), "rebuilt")
	if err := oci.WriteLayout(dir, "v1", nil, variants); err != nil {
		t.Fatal(err)
	}

	copied.Layout = open(t, dir)
	copied.renamed[subjects[0].Descriptor.Digest.Hex] = digests(t, copied)[0].Hex

	return copied
}

func filesOf(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()

	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}

	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()

	files := make(map[string][]byte)

	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}

		if err != nil {
			t.Fatal(err)
		}

		if header.Typeflag != tar.TypeReg {
			continue
		}

		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func layerFrom(t *testing.T, files map[string][]byte) v1.Layer {
	t.Helper()

	var out bytes.Buffer

	archive := tar.NewWriter(&out)

	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if path.Base(path.Dir(name)) == "bin" && path.Ext(name) == "" {
			mode = 0o755
		}

		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}

		if _, err := archive.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}

	return layer
}

// restated are the statements of the originals with the copies as subjects, and with other changes.
func (r rebuilt) restated(t *testing.T, statements []attest.Statement, changes ...string) []attest.Statement {
	t.Helper()

	for old, now := range r.renamed {
		changes = append(changes, old, now)
	}

	replacer := strings.NewReplacer(changes...)

	var all []attest.Statement

	for _, statement := range statements {
		text, err := statement.Encode()
		if err != nil {
			t.Fatal(err)
		}

		changed, err := attest.ParseStatement([]byte(replacer.Replace(string(text))))
		if err != nil {
			t.Fatal(err)
		}

		all = append(all, changed)
	}

	return all
}

// digestOf is the digest of a file in the amd64 image.
func digestOf(t *testing.T, layout *oci.Layout, file string) string {
	t.Helper()

	subjects, err := layout.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	return digestOfBytes(t, filesOf(t, subjects[1].Image)[file])
}

func digestOfBytes(t *testing.T, data []byte) string {
	t.Helper()

	digest, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	return digest.String()
}

// replaced alters a plugin and makes the manifest beside it agree.
func replaced(t *testing.T, files map[string][]byte, digest string) {
	t.Helper()

	if digestOfBytes(t, files[staticFile]) != digest {
		return // the other architecture's
	}

	altered := bytes.Clone(files[staticFile])
	altered[len(altered)/2] ^= 1

	files[manifestFile] = bytes.ReplaceAll(files[manifestFile], []byte(digest), []byte(digestOfBytes(t, altered)))
	files[staticFile] = altered
}
