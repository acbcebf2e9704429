package catalog

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
)

// maxFile bounds what is read from an image as a whole, in bytes; the official catalogue has some 50 kB.
const maxFile = 4 << 20

// architectures of the catalogue image. Its content is the same in each; Factory asks for amd64.
var architectures = []string{"amd64", "arm64"}

// Read reads the catalogue in a store. All architectures must have the same.
func Read(ctx context.Context, store oci.Store) (*Catalogue, error) {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	var catalogue *Catalogue

	err = eachImage(subjects, func(image v1.Image) error {
		files, err := readFiles(ctx, image, digestsName, descriptionsName)
		if err != nil {
			return err
		}

		if files[digestsName] == nil {
			return fmt.Errorf("there is no %s: it is not an extension catalogue", digestsName)
		}

		next := New(files[digestsName], files[descriptionsName])
		if catalogue != nil && !(bytes.Equal(catalogue.digests, next.digests) && bytes.Equal(catalogue.descriptions, next.descriptions)) {
			return errors.New("its images for different architectures list different extensions")
		}

		catalogue = next

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading catalogue %s: %w", store.Name(), err)
	}

	if _, err := catalogue.Entries(); err != nil {
		return nil, fmt.Errorf("reading catalogue %s: %w", store.Name(), err)
	}

	return catalogue, nil
}

// Write writes the catalogue of a Talos release as an OCI layout in dir, which must not exist.
func (c *Catalogue) Write(ctx context.Context, packer *oci.Packer, dir, talos string, created time.Time) error {
	tree := &rootfs.Tree{}

	for name, data := range map[string][]byte{digestsName: c.digests, descriptionsName: c.descriptions} {
		if err := tree.Add(name, 0o644, rootfs.Bytes(data)); err != nil {
			return err
		}
	}

	layer, err := packer.Layer(ctx, tree, created, oci.Gzip)
	if err != nil {
		return err
	}

	const prefix = "org.opencontainers.image."

	annotations := map[string]string{
		prefix + "title":       "extensions",
		prefix + "description": "System extensions for Talos " + talos,
		prefix + "version":     talos,
		prefix + "created":     created.UTC().Format(time.RFC3339),
	}

	variants := make([]oci.Variant, 0, len(architectures))

	for _, arch := range architectures {
		image, err := oci.NewImage(layer, oci.ImageConfig{Arch: arch, Created: created, Annotations: annotations})
		if err != nil {
			return fmt.Errorf("making the catalogue image: %w", err)
		}

		variants = append(variants, oci.Variant{Arch: arch, Image: image})
	}

	return oci.WriteLayout(dir, talos, annotations, variants)
}

// eachImage calls visit for every operating system's image, of which there has to be one.
func eachImage(subjects []oci.Subject, visit func(v1.Image) error) error {
	found := false

	for _, subject := range subjects {
		// Builders list attestations as images of an unknown system.
		if subject.Image == nil || subject.Descriptor.Platform != nil && subject.Descriptor.Platform.OS == "unknown" {
			continue
		}

		found = true

		if err := visit(subject.Image); err != nil {
			return err
		}
	}

	if !found {
		return errors.New("it holds no image")
	}

	return nil
}

// readFiles returns those of the named files that an image has, as its topmost layer has them.
func readFiles(ctx context.Context, image v1.Image, names ...string) (map[string][]byte, error) {
	files := make(map[string][]byte)

	err := oci.Files(ctx, image, rootfs.DefaultReadLimits, func(h *tar.Header, content io.Reader) error {
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !slices.Contains(names, name) {
			return nil
		}

		if h.Size > maxFile {
			return fmt.Errorf("%s has %d bytes, more than %d", name, h.Size, maxFile)
		}

		data, err := io.ReadAll(content)
		files[name] = data

		return err
	})

	return files, err
}
