package dist

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image: the content of a file of this machine, or a symlink.
type File struct{ Path, From, Link string }

// Image writes an image of a few files, for containerd to import, and returns its path.
func Image(t testing.TB, reference string, entrypoint []string, files ...File) string {
	t.Helper()

	var content bytes.Buffer

	archive := tar.NewWriter(&content)

	for _, file := range files {
		if err := add(archive, file); err != nil {
			t.Fatal(err)
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}

	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}

	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = entrypoint
	config.Config.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}

	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		t.Fatal(err)
	}

	return path
}

func add(archive *tar.Writer, file File) error {
	if file.Link != "" {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: file.Path, Linkname: file.Link, Mode: 0o777})
	}

	content, err := os.ReadFile(file.From)
	if err != nil {
		return err
	}

	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}

	_, err = archive.Write(content)

	return err
}
