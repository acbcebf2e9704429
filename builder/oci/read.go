package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/cnibake/cnibake/builder/rootfs"
)

// IsLayout reports whether a directory is an OCI image layout.
func IsLayout(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "oci-layout"))

	return err == nil && info.Mode().IsRegular()
}

// maxEntries bounds how many entries of an untrusted index are looked at, those of nested ones
// included: a few small blobs can list each other often enough to keep a reader busy for years.
const maxEntries = 100

// ReadLayout returns the images of an OCI image layout, also those of nested indexes. Entries that
// are not images of an operating system (signatures, attestations) are left out. Manifests and
// configurations must have the digests by which they are listed.
func ReadLayout(dir string) ([]v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("reading layout %s: %w", dir, err)
	}

	left := maxEntries

	images, err := indexImages(index, 0, &left)
	if err != nil {
		return nil, fmt.Errorf("reading layout %s: %w", dir, err)
	}

	if len(images) == 0 {
		return nil, fmt.Errorf("layout %s holds no image", dir)
	}

	return images, nil
}

func indexImages(index v1.ImageIndex, depth int, left *int) ([]v1.Image, error) {
	const deepest = 4
	if depth > deepest {
		return nil, errors.New("indexes are nested too deeply")
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}

	var images []v1.Image

	for _, descriptor := range manifest.Manifests {
		if *left--; *left < 0 {
			return nil, fmt.Errorf("more than %d entries", maxEntries)
		}

		switch {
		case descriptor.MediaType.IsIndex():
			nested, err := index.ImageIndex(descriptor.Digest)
			if err != nil {
				return nil, err
			}

			if err := checkBlob(nested.RawManifest, descriptor.Digest); err != nil {
				return nil, err
			}

			more, err := indexImages(nested, depth+1, left)
			if err != nil {
				return nil, err
			}

			images = append(images, more...)
		case descriptor.MediaType.IsImage():
			image, err := index.Image(descriptor.Digest)
			if err != nil {
				return nil, err
			}

			isImage, err := checkImage(image, descriptor.Digest)
			if err != nil {
				return nil, err
			}

			if isImage {
				images = append(images, image)
			}
		}
	}

	return images, nil
}

// checkImage reports whether a manifest is an operating system's, and whether it and its
// configuration were altered.
func checkImage(image v1.Image, digest v1.Hash) (bool, error) {
	if err := checkBlob(image.RawManifest, digest); err != nil {
		return false, err
	}

	manifest, err := image.Manifest()
	if err != nil {
		return false, fmt.Errorf("reading manifest %s: %w", digest, err)
	}

	if !manifest.Config.MediaType.IsConfig() {
		return false, nil
	}

	return true, checkBlob(image.RawConfigFile, manifest.Config.Digest)
}

// Files calls visit for every entry of every layer of an image, bottom layer first. Layers are
// decompressed by what they contain, and their compressed bytes must have the digest that the
// manifest gives them.
func Files(ctx context.Context, image v1.Image, limits rootfs.ReadLimits, visit func(*tar.Header, io.Reader) error) error {
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("reading layers: %w", err)
	}

	for _, layer := range layers {
		if err := layerFiles(ctx, layer, limits, visit); err != nil {
			return err
		}
	}

	return nil
}

func layerFiles(ctx context.Context, layer v1.Layer, limits rootfs.ReadLimits, visit func(*tar.Header, io.Reader) error) error {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("reading layer: %w", err)
	}

	compressed, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	defer compressed.Close()

	checked := newChecked(compressed)

	content, _, err := Decompress(checked)
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	defer content.Close()

	if err := rootfs.ReadTar(ctx, content, limits, visit); err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}

	return checked.finish(digest)
}

// archiveName matches the files of a layout.
var archiveName = regexp.MustCompile(`^(oci-layout|index\.json|blobs/[a-z0-9]+/[0-9a-f]{32,128})$`)

// UnpackArchive writes the layout inside an OCI archive into dir. Entries that do not belong to a
// layout are passed over.
func UnpackArchive(ctx context.Context, r io.Reader, dir string, limits rootfs.ReadLimits) error {
	return rootfs.ReadTar(ctx, r, limits, func(header *tar.Header, content io.Reader) error {
		name := path.Clean(strings.TrimPrefix(header.Name, "./"))
		if header.Typeflag != tar.TypeReg || !archiveName.MatchString(name) {
			return nil
		}

		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}

		file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}

		_, err = io.Copy(file, content)

		return errors.Join(err, file.Close())
	})
}
