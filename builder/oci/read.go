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

	"github.com/cnibake/cnibake/builder/rootfs"
)

// IsLayout reports whether a directory is an OCI image layout.
func IsLayout(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "oci-layout"))

	return err == nil && info.Mode().IsRegular()
}

// ReadLayout returns the images of an OCI image layout, also those of nested indexes. Entries that
// are not images of an operating system (signatures, attestations) are left out. Manifests and
// configurations must have the digests by which they are listed.
func ReadLayout(dir string) ([]v1.Image, error) {
	images, err := readImages(blobs(dir))
	if err != nil {
		return nil, fmt.Errorf("reading layout %s: %w", dir, err)
	}

	if len(images) == 0 {
		return nil, fmt.Errorf("layout %s holds no image", dir)
	}

	return images, nil
}

func readImages(dir blobs) ([]v1.Image, error) {
	index, err := dir.top()
	if err != nil {
		return nil, err
	}

	var images []v1.Image

	left := maxEntries

	err = index.walk(0, &left, func(descriptor v1.Descriptor, image v1.Image, manifest *v1.Manifest) error {
		if !isSystem(descriptor, manifest) {
			return nil
		}

		if _, err := image.RawConfigFile(); err != nil {
			return err
		}

		images = append(images, image)

		return nil
	})

	return images, err
}

// Files calls visit for every entry of every layer of an image, bottom layer first. Layers are
// decompressed by what they contain, and their compressed bytes must have the digest that the
// manifest gives them. The limits are for all layers together: a manifest can list one a thousand times.
func Files(ctx context.Context, image v1.Image, limits rootfs.ReadLimits, visit func(*tar.Header, io.Reader) error) error {
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("reading layers: %w", err)
	}

	left := limits

	for _, layer := range layers {
		err := layerFiles(ctx, layer, left, func(header *tar.Header, content io.Reader) error {
			left.Entries--
			left.TotalSize -= header.Size

			return visit(header, content)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// maxRest bounds, in bytes, what follows an archive in a layer, or what is wrong in it.
const maxRest = 4 << 30

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

	checked := newChecked(compressed, digest, anySize)

	if err := readLayer(ctx, checked, limits, visit); err != nil {
		// Whatever the bytes look like: when they are not the layer's, that is what is wrong.
		if altered := checked.finish(maxRest); IsAltered(altered) {
			return altered
		}

		return fmt.Errorf("reading layer %s: %w", digest, err)
	}

	return checked.finish(maxRest)
}

func readLayer(ctx context.Context, compressed io.Reader, limits rootfs.ReadLimits, visit func(*tar.Header, io.Reader) error) error {
	content, _, err := Decompress(compressed)
	if err != nil {
		return err
	}
	defer content.Close()

	return rootfs.ReadTar(ctx, content, limits, visit)
}

// archiveName matches the files of a layout.
var archiveName = regexp.MustCompile(`^(oci-layout|index\.json|blobs/[a-z0-9]+/[0-9a-f]{32,128})$`)

func unpackArchive(ctx context.Context, r io.Reader, dir string, limits rootfs.ReadLimits) error {
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

// UnpackFile writes the layout inside an OCI archive, compressed or not, into dir. Entries that do not belong to
// a layout are passed over.
func UnpackFile(ctx context.Context, name, dir string) error {
	content, _, err := Open(name)
	if err != nil {
		return err
	}
	defer content.Close()

	if err := unpackArchive(ctx, content, dir, rootfs.DefaultReadLimits); err != nil {
		return err
	}

	if !IsLayout(dir) {
		return errors.New("it is not an archive of an OCI layout")
	}

	return nil
}
