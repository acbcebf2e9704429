package corpus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"github.com/cnibake/cnibake/hack/talos/artifact"
)

// TestFile gives tarballPath what is not a plain tar of an extension. No release takes any of it.
func TestFile(t *testing.T) {
	g, lines := newGood(t), releases(t)

	plain, err := os.ReadFile(g.dist.Tar(artifact.TalosReadonly, artifact.AMD64))
	if err != nil {
		t.Fatal(err)
	}

	cases := []struct {
		name    string
		content []byte
	}{
		{"empty file", nil},
		{"text", []byte("Not Found\n")},
		{"cut short", plain[:len(plain)*2/3]},
		{"cut within a header", plain[:700]},
		{"gzipped tar", gzipped(t, plain)},
		{"zstd tar", zstdCompressed(t, plain)},
		{"docker save", dockerSave(t, g.dist.Layout(artifact.TalosReadonly))},
		{"archive of a layout", archived(t, g.dist.Layout(artifact.TalosReadonly))},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := writeBytes(t, c.content)

			for _, line := range lines {
				if _, err := line.load(t.Context(), path, t.TempDir()); err == nil {
					t.Errorf("%s takes it", line.version)
				} else {
					t.Logf("%s: %v", line.version, err)
				}
			}

			wantLint(t, path, true, "")
		})
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()

	var out bytes.Buffer

	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}

	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func zstdCompressed(t *testing.T, content []byte) []byte {
	t.Helper()

	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}

	return encoder.EncodeAll(content, nil)
}

// dockerSave is the archive that `docker save` writes of the amd64 image.
func dockerSave(t *testing.T, dir string) []byte {
	t.Helper()

	var out bytes.Buffer

	if err := tarball.Write(name.MustParseReference("cnibake/extension:v1"), imageOf(t, dir, artifact.AMD64), &out); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// archived is a directory as a tar: what skopeo calls oci-archive, of a layout.
func archived(t *testing.T, dir string) []byte {
	t.Helper()

	var out bytes.Buffer

	writer := tar.NewWriter(&out)
	if err := writer.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}

	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// copyLayout copies a layout for a test to break.
func copyLayout(t *testing.T, from string) layout.Path {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "layout")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}

	// CopyFS keeps read-only modes, which would be in the way.
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		return os.Chmod(path, 0o644)
	}); err != nil {
		t.Fatal(err)
	}

	return layout.Path(dir)
}
