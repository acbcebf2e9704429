package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// maxDocument bounds an index, a manifest or a configuration, which are held in memory.
	maxDocument = 4 << 20
	// maxEntries bounds how many entries of an untrusted index are looked at, those of nested ones
	// included: a few small blobs can list each other often enough to keep a reader busy for years.
	maxEntries = 1000
	// maxDepth bounds how deep indexes nest.
	maxDepth = 4
)

// What becomes of a walk that meets these limits.
var (
	errTooDeep = errors.New("indexes are nested too deeply")
	errTooMany = fmt.Errorf("more than %d entries", maxEntries)
)

// blobs is the directory of an OCI image layout. Whatever is read from it has the digest that was
// asked for.
type blobs string

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// path is where a blob is. A digest may come from anywhere, so it is looked at before it becomes a file name.
func (b blobs) path(digest v1.Hash) (string, error) {
	if digest.Algorithm != "sha256" || !hexDigest.MatchString(digest.Hex) {
		return "", fmt.Errorf("blob %s: only sha256 digests are supported", digest)
	}

	return filepath.Join(string(b), "blobs", "sha256", digest.Hex), nil
}

// open returns a blob's bytes; reading ends in an error when they are not those of the digest.
func (b blobs) open(digest v1.Hash, size int64) (io.ReadCloser, error) {
	name, err := b.path(digest)
	if err != nil {
		return nil, err
	}

	if size < 0 {
		return nil, fmt.Errorf("blob %s: a size of %d bytes", digest, size)
	}

	file, _, err := openRegular(name)
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", digest, err)
	}

	return struct {
		io.Reader
		io.Closer
	}{newChecked(file, digest, size), file}, nil
}

// checkDocument refuses what would take too much memory to read.
func checkDocument(descriptor v1.Descriptor) error {
	if descriptor.Size < 0 || descriptor.Size > maxDocument {
		return fmt.Errorf("blob %s: an index, manifest or configuration cannot have %d bytes (limit %d)", descriptor.Digest, descriptor.Size, maxDocument)
	}

	return nil
}

// document returns the bytes of an index, a manifest or a configuration.
func (b blobs) document(descriptor v1.Descriptor) ([]byte, error) {
	if err := checkDocument(descriptor); err != nil {
		return nil, err
	}

	blob, err := b.open(descriptor.Digest, descriptor.Size)
	if err != nil {
		return nil, err
	}
	defer blob.Close()

	return io.ReadAll(blob)
}

// openRegular opens a file that nothing can be waiting behind.
func openRegular(name string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}

	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}

	file, err := os.Open(name)

	return file, info, err
}

// top returns what index.json says.
func (b blobs) top() (*storedIndex, error) {
	file, info, err := openRegular(filepath.Join(string(b), "index.json"))
	if err != nil {
		return nil, err
	}
	defer file.Close()

	if info.Size() > maxDocument {
		return nil, fmt.Errorf("index.json: %d bytes are more than an index can have (limit %d)", info.Size(), maxDocument)
	}

	raw, err := io.ReadAll(io.LimitReader(file, maxDocument))
	if err != nil {
		return nil, err
	}

	index, err := b.parseIndex(raw, types.OCIImageIndex)
	if err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}

	return index, nil
}

func (b blobs) parseIndex(raw []byte, mediaType types.MediaType) (*storedIndex, error) {
	manifest, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}

	return &storedIndex{blobs: b, raw: raw, mediaType: mediaType, manifest: manifest}, nil
}

func (b blobs) index(descriptor v1.Descriptor) (*storedIndex, error) {
	raw, err := b.document(descriptor)
	if err != nil {
		return nil, err
	}

	return b.parseIndex(raw, descriptor.MediaType)
}

func (b blobs) image(descriptor v1.Descriptor) (v1.Image, *v1.Manifest, error) {
	raw, err := b.document(descriptor)
	if err != nil {
		return nil, nil, err
	}

	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, fmt.Errorf("reading manifest %s: %w", descriptor.Digest, err)
	}

	image, err := partial.CompressedToImage(&storedImage{blobs: b, raw: raw, mediaType: descriptor.MediaType, manifest: manifest})

	return image, manifest, err
}

// storedIndex is an index whose children are blobs of a layout.
type storedIndex struct {
	blobs     blobs
	raw       []byte
	mediaType types.MediaType
	manifest  *v1.IndexManifest
}

var _ v1.ImageIndex = (*storedIndex)(nil)

func (i *storedIndex) MediaType() (types.MediaType, error)         { return i.mediaType, nil }
func (i *storedIndex) Digest() (v1.Hash, error)                    { return partial.Digest(i) }
func (i *storedIndex) Size() (int64, error)                        { return partial.Size(i) }
func (i *storedIndex) RawManifest() ([]byte, error)                { return i.raw, nil }
func (i *storedIndex) IndexManifest() (*v1.IndexManifest, error)   { return i.manifest.DeepCopy(), nil }
func (i *storedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) { return child(i, h, i.blobs.index) }

func (i *storedIndex) Image(h v1.Hash) (v1.Image, error) {
	return child(i, h, func(descriptor v1.Descriptor) (v1.Image, error) {
		image, _, err := i.blobs.image(descriptor)

		return image, err
	})
}

func child[T any](i *storedIndex, digest v1.Hash, read func(v1.Descriptor) (T, error)) (T, error) {
	for _, descriptor := range i.manifest.Manifests {
		if descriptor.Digest == digest {
			return read(descriptor)
		}
	}

	var none T

	return none, fmt.Errorf("the index does not list %s", digest)
}

// walk calls visit for every image below the index, first come first. left bounds them.
func (i *storedIndex) walk(depth int, left *int, visit func(descriptor v1.Descriptor, image v1.Image, manifest *v1.Manifest) error) error {
	if depth > maxDepth {
		return errTooDeep
	}

	for _, descriptor := range i.manifest.Manifests {
		if *left--; *left < 0 {
			return errTooMany
		}

		switch {
		case descriptor.MediaType.IsIndex():
			nested, err := i.blobs.index(descriptor)
			if err != nil {
				return err
			}

			if err := nested.walk(depth+1, left, visit); err != nil {
				return err
			}
		case descriptor.MediaType.IsImage():
			image, manifest, err := i.blobs.image(descriptor)
			if err != nil {
				return err
			}

			if err := visit(descriptor, image, manifest); err != nil {
				return err
			}
		}
	}

	return nil
}

// storedImage is an image whose configuration and layers are blobs of a layout.
type storedImage struct {
	blobs     blobs
	raw       []byte
	mediaType types.MediaType
	manifest  *v1.Manifest
}

var _ partial.CompressedImageCore = (*storedImage)(nil)

func (i *storedImage) MediaType() (types.MediaType, error) { return i.mediaType, nil }
func (i *storedImage) RawManifest() ([]byte, error)        { return i.raw, nil }
func (i *storedImage) RawConfigFile() ([]byte, error)      { return i.blobs.document(i.manifest.Config) }

func (i *storedImage) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, descriptor := range append([]v1.Descriptor{i.manifest.Config}, i.manifest.Layers...) {
		if descriptor.Digest == digest {
			return &storedLayer{i.blobs, descriptor}, nil
		}
	}

	return nil, fmt.Errorf("the manifest does not list %s", digest)
}

type storedLayer struct {
	blobs      blobs
	descriptor v1.Descriptor
}

func (l *storedLayer) Digest() (v1.Hash, error)            { return l.descriptor.Digest, nil }
func (l *storedLayer) Size() (int64, error)                { return l.descriptor.Size, nil }
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
func (l *storedLayer) Descriptor() (*v1.Descriptor, error) { return &l.descriptor, nil }
func (l *storedLayer) Compressed() (io.ReadCloser, error) {
	return l.blobs.open(l.descriptor.Digest, l.descriptor.Size)
}
