// Package oci makes layers, images and layouts out of file trees, and reads them back.
package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/rootfs"
)

// Cache keeps files by kind and key. fill makes a missing one and returns a short note that is kept
// with it.
type Cache interface {
	LayerFile(ctx context.Context, key string, fill func(ctx context.Context, path string) (note string, err error)) (path, digest, note string, size int64, err error)
}

// Packer turns file trees into compressed layers.
type Packer struct {
	cache Cache
	// slots bounds how many layers are compressed at once.
	slots chan struct{}
}

// NewPacker returns a Packer that compresses up to jobs layers at once and keeps them in the cache.
func NewPacker(cache Cache, jobs int) *Packer {
	return &Packer{cache: cache, slots: make(chan struct{}, max(jobs, 1))}
}

// Layer is a layer whose compressed bytes are a file.
type Layer struct {
	path           string
	digest, diffID v1.Hash
	size           int64
	mediaType      types.MediaType
}

var _ v1.Layer = (*Layer)(nil)

// LayerOption changes how a layer is packed.
type LayerOption func(*layerOptions)

type layerOptions struct {
	window int
}

// WithWindow sets how many bytes back zstd looks for matches; a decoder needs about as much memory.
// It must be a power of two.
func WithWindow(bytes int) LayerOption {
	return func(o *layerOptions) { o.window = bytes }
}

// Layer returns the tree as a layer. The bytes depend on the tree, the time, the compression and the
// options only.
func (p *Packer) Layer(ctx context.Context, tree *rootfs.Tree, modified time.Time, compression Compression, options ...LayerOption) (*Layer, error) {
	chosen := layerOptions{window: zstdWindow}
	for _, option := range options {
		option(&chosen)
	}

	mediaType, err := compression.mediaType()
	if err != nil {
		return nil, err
	}

	key := strings.Join([]string{"layer", tree.Fingerprint(modified), compression.parameters(chosen.window), libraryVersion()}, "\n")

	path, digest, diffID, size, err := p.cache.LayerFile(ctx, key, func(ctx context.Context, target string) (string, error) {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return "", ctx.Err()
		}

		return writeCompressed(ctx, target, tree, modified, compression, chosen)
	})
	if err != nil {
		return nil, fmt.Errorf("packing layer: %w", err)
	}

	return &Layer{
		path:      path,
		digest:    v1.Hash{Algorithm: "sha256", Hex: digest},
		diffID:    v1.Hash{Algorithm: "sha256", Hex: diffID},
		size:      size,
		mediaType: mediaType,
	}, nil
}

// writeCompressed writes the tree's compressed tar and returns the uncompressed tar's sum.
func writeCompressed(ctx context.Context, target string, tree *rootfs.Tree, modified time.Time, compression Compression, options layerOptions) (string, error) {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return "", err
	}
	defer file.Close()

	compressor, err := compression.newWriter(file, options.window)
	if err != nil {
		return "", err
	}

	hash := sha256.New()
	if err := tree.WriteTar(ctx, io.MultiWriter(compressor, hash), modified); err != nil {
		return "", err
	}

	if err := compressor.Close(); err != nil {
		return "", err
	}

	return hex.EncodeToString(hash.Sum(nil)), file.Close()
}

// libraryVersion is the version of the compression library this program was linked with, since
// compressed bytes depend on it.
func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/klauspost/compress" {
				return dep.Version
			}
		}
	}

	return "unknown"
}

// Digest of the compressed bytes.
func (l *Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the uncompressed tar.
func (l *Layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size of the compressed bytes.
func (l *Layer) Size() (int64, error) { return l.size, nil }

// MediaType says how the bytes are compressed.
func (l *Layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// Compressed returns the bytes as they are stored and pushed.
func (l *Layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed returns the tar.
func (l *Layer) Uncompressed() (io.ReadCloser, error) {
	content, _, err := Open(l.path)

	return content, err
}
