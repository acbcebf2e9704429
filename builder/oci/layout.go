package oci

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/rootfs"
)

// Annotations by which readers of a layout tell its images apart.
const (
	// RefName is what skopeo, podman and crane look for.
	RefName = "org.opencontainers.image.ref.name"
	// ContainerdName is the name `ctr images import` gives an image.
	ContainerdName = "io.containerd.image.name"
)

// Variant is one architecture's image of a layout.
type Variant struct {
	Arch  string
	Image v1.Image
}

// WriteLayout makes an OCI image layout in dir, which must not exist. All images are listed in
// index.json itself, each with its platform, since the Talos imager looks nowhere deeper. Each is
// named TAG-ARCH, so that `skopeo copy oci:DIR:TAG-ARCH` finds it.
func WriteLayout(dir, tag string, annotations map[string]string, variants []Variant) error {
	index, ok := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), annotations).(v1.ImageIndex)
	if !ok {
		return fmt.Errorf("annotating index: unexpected type %T", index)
	}

	path, err := layout.Write(dir, index)
	if err != nil {
		return fmt.Errorf("writing layout: %w", err)
	}

	for _, variant := range variants {
		if err := appendImage(path, variant, map[string]string{RefName: tag + "-" + variant.Arch}); err != nil {
			return fmt.Errorf("writing layout: %w", err)
		}
	}

	return readable(dir)
}

// readable gives every file of a layout the mode of its index: the library leaves blobs to their
// owner alone, while the user's umask decides about the rest.
func readable(dir string) error {
	info, err := os.Stat(filepath.Join(dir, "index.json"))
	if err != nil {
		return fmt.Errorf("writing layout: %w", err)
	}

	return filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		return os.Chmod(name, info.Mode().Perm()&^0o111)
	})
}

// WriteArchive writes one image as an OCI archive: a tar of a layout whose only image has the name,
// in the form REPOSITORY:TAG. work is a directory for temporary files.
func WriteArchive(ctx context.Context, w io.Writer, work, name, tag string, variant Variant, modified time.Time) error {
	dir, err := os.MkdirTemp(work, "archive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return fmt.Errorf("writing OCI archive: %w", err)
	}

	if err := appendImage(path, variant, map[string]string{RefName: tag, ContainerdName: name + ":" + tag}); err != nil {
		return fmt.Errorf("writing OCI archive: %w", err)
	}

	tree, err := directoryTree(dir)
	if err != nil {
		return fmt.Errorf("writing OCI archive: %w", err)
	}

	return tree.WriteTar(ctx, w, modified)
}

// appendImage adds an image to a layout, with a descriptor of our own: the one the library makes
// calls every image an artifact.
func appendImage(path layout.Path, variant Variant, annotations map[string]string) error {
	if err := path.WriteImage(variant.Image); err != nil {
		return err
	}

	descriptor, err := partial.Descriptor(variant.Image)
	if err != nil {
		return err
	}

	platform := Platform(variant.Arch)

	return path.AppendDescriptor(v1.Descriptor{
		MediaType:   descriptor.MediaType,
		Digest:      descriptor.Digest,
		Size:        descriptor.Size,
		Platform:    &platform,
		Annotations: annotations,
	})
}

// directoryTree returns the tree of a layout's files.
func directoryTree(dir string) (*rootfs.Tree, error) {
	tree := &rootfs.Tree{}

	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}

		return tree.Add(filepath.ToSlash(relative), 0o644, rootfs.File(name, "", info.Size()))
	})
	if err != nil {
		return nil, err
	}

	return tree, tree.AddParents()
}
