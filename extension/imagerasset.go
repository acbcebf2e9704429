package extension

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
)

// ImagerAsset is where the Talos imager takes an extension from. Exactly one field is set.
type ImagerAsset struct {
	// ImageRef is a registry reference with digest.
	ImageRef string `yaml:"imageRef,omitempty"`
	// OCIPath is the directory of an OCI layout, TarballPath a plain tar, as the imager sees them.
	OCIPath     string `yaml:"ociPath,omitempty"`
	TarballPath string `yaml:"tarballPath,omitempty"`
}

// At returns the asset with another path, the one at which the imager's container sees it. An empty path
// changes nothing.
func (a ImagerAsset) At(path string) (ImagerAsset, error) {
	switch {
	case path == "":
	case a.OCIPath != "":
		a.OCIPath = path
	case a.TarballPath != "":
		a.TarballPath = path
	default:
		return a, errors.New("an image in a registry has no path")
	}

	return a, nil
}

// key and value of the asset's only entry.
func (a ImagerAsset) key() string {
	switch {
	case a.OCIPath != "":
		return "ociPath"
	case a.TarballPath != "":
		return "tarballPath"
	default:
		return "imageRef"
	}
}

func (a ImagerAsset) value() string {
	switch {
	case a.OCIPath != "":
		return a.OCIPath
	case a.TarballPath != "":
		return a.TarballPath
	default:
		return a.ImageRef
	}
}

// DigestFunc asks a registry for the digest of what a reference names.
type DigestFunc func(ctx context.Context, reference string) (v1.Hash, error)

// FindImagerAsset recognises an extension by content: the directory of an OCI layout, a plain tar, or else
// a registry reference, whose digest is asked for unless it has one.
func FindImagerAsset(ctx context.Context, extension string, digest DigestFunc) (ImagerAsset, error) {
	info, err := os.Stat(extension)

	switch {
	case errors.Is(err, os.ErrNotExist) && oci.LooksRemote(extension):
		return resolve(ctx, extension, digest)
	case err != nil:
		return ImagerAsset{}, fmt.Errorf("finding extension: %w", err)
	case info.IsDir() && oci.IsLayout(extension):
		return ImagerAsset{OCIPath: extension}, nil
	case info.IsDir():
		return ImagerAsset{}, fmt.Errorf("%s is not an OCI layout: the imager takes layouts, plain tars and registry references", extension)
	default:
		return findTar(ctx, extension)
	}
}

func findTar(ctx context.Context, file string) (ImagerAsset, error) {
	content, compression, err := oci.Open(file)
	if err != nil {
		return ImagerAsset{}, fmt.Errorf("finding extension: %s: %w", file, err)
	}
	defer content.Close()

	hasManifest, isLayout := false, false

	err = rootfs.ReadTar(ctx, content, rootfs.DefaultReadLimits, func(h *tar.Header, _ io.Reader) error {
		clean := strings.TrimPrefix(h.Name, "./")
		hasManifest = hasManifest || clean == manifestName
		isLayout = isLayout || clean == "oci-layout"

		return nil
	})

	switch {
	case err != nil:
		return ImagerAsset{}, fmt.Errorf("finding extension: %s: %w", file, err)
	case isLayout:
		return ImagerAsset{}, fmt.Errorf("%s is an archive of an OCI layout, which the imager does not take: unpack it and give the directory", file)
	case !hasManifest:
		return ImagerAsset{}, fmt.Errorf("%s has no %s: it is not an extension", file, manifestName)
	case compression != oci.None:
		return ImagerAsset{}, fmt.Errorf("%s is compressed with %s, and the imager takes a plain tar: decompress it", file, compression)
	default:
		return ImagerAsset{TarballPath: file}, nil
	}
}

// resolve adds the digest to a reference, so that every build takes the same bytes.
func resolve(ctx context.Context, reference string, digest DigestFunc) (ImagerAsset, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return ImagerAsset{}, fmt.Errorf("finding extension: there is no such file, nor is it a registry reference: %w", err)
	}

	if _, ok := ref.(name.Digest); ok {
		return ImagerAsset{ImageRef: reference}, nil
	}

	found, err := digest(ctx, reference)
	if err != nil {
		return ImagerAsset{}, fmt.Errorf("%w: give it as %s@sha256:... where there is no network", err, reference)
	}

	return ImagerAsset{ImageRef: reference + "@" + found.String()}, nil
}
