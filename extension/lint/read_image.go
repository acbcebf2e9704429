package lint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/oci"
)

const (
	// maxImages bounds the images of an untrusted index, maxDepth how deep indexes nest.
	maxImages = 32
	maxDepth  = 3
	// maxDocument bounds an index, manifest or configuration.
	maxDocument = 4 << 20
)

func (c *contents) readLayout(ctx context.Context, r *reader, dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}

	return c.readIndex(ctx, r, index, 0)
}

func (c *contents) readRegistry(ctx context.Context, r *reader, reference string, pull func(context.Context, string) (oci.Subject, error)) error {
	c.kind = KindRegistry

	root, err := pull(ctx, reference)
	if err != nil {
		return err
	}

	if root.Index != nil {
		return c.readIndex(ctx, r, root.Index, 0)
	}

	// There is no index, so there is no platform to be missing from it.
	return c.readImage(ctx, r, root.Image, v1.Descriptor{Digest: root.Descriptor.Digest, MediaType: root.Descriptor.MediaType}, false, true)
}

func (c *contents) readIndex(ctx context.Context, r *reader, index v1.ImageIndex, depth int) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}

	for _, d := range manifest.Manifests {
		switch {
		case len(c.images) >= maxImages:
			return fmt.Errorf("more than %d images", maxImages)
		case d.Size > maxDocument:
			c.problem("oci-damaged", d.Digest.String(), "", "the index gives this manifest %d bytes", d.Size)
		case d.MediaType.IsIndex() && depth < maxDepth:
			c.nestedIndexes = append(c.nestedIndexes, d.Digest.String())

			nested, err := index.ImageIndex(d.Digest)
			if err == nil {
				err = c.readIndex(ctx, r, nested, depth+1)
			}

			if err != nil {
				if !c.damaged(err, d.Digest.String(), "") {
					return err
				}
			}
		case d.MediaType.IsImage():
			img, err := index.Image(d.Digest)
			if err == nil {
				err = c.readImage(ctx, r, img, d, depth > 0, false)
			}

			if err != nil {
				if !c.damaged(err, d.Digest.String(), "") {
					return err
				}
			}
		}
	}

	return nil
}

// damaged records an error that is the artifact's fault and reports whether it was.
func (c *contents) damaged(err error, where, arch string) bool {
	// A blob that an index lists and the layout lacks is the artifact's fault too.
	if !isDamage(err) && !(c.kind != KindRegistry && errors.Is(err, fs.ErrNotExist)) {
		return false
	}

	c.problem("oci-damaged", where, arch, "%v", err)

	return true
}

// isSystem tells an image of files from the signatures and attestations that tools list beside it.
func isSystem(d v1.Descriptor, manifest *v1.Manifest) bool {
	if !manifest.Config.MediaType.IsConfig() || d.Annotations["vnd.docker.reference.type"] == "attestation-manifest" {
		return false
	}

	isLayer := func(l v1.Descriptor) bool { return l.MediaType.IsLayer() }

	return d.Platform != nil || len(manifest.Layers) == 0 || slices.ContainsFunc(manifest.Layers, isLayer)
}

func (c *contents) readImage(ctx context.Context, r *reader, img v1.Image, d v1.Descriptor, nested, alone bool) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}

	if !isSystem(d, manifest) {
		return nil
	}

	config, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("reading image configuration: %w", err)
	}

	i := &image{
		digest: d.Digest.String(), nested: nested, layers: len(manifest.Layers),
		configOS: config.OS, configArch: config.Architecture,
		hasPlatform: d.Platform != nil,
	}

	switch {
	case d.Platform != nil:
		i.os, i.arch = d.Platform.OS, d.Platform.Architecture
	case alone:
		i.os, i.arch, i.hasPlatform = config.OS, config.Architecture, true
	}

	c.images = append(c.images, i)

	t := &tree{arch: cmp.Or(i.arch, i.configArch)}

	layers, err := img.Layers()
	if err != nil {
		return err
	}

	entries := make([][]*entry, len(layers))

	for n, layer := range layers {
		var diffID v1.Hash
		if n < len(config.RootFS.DiffIDs) {
			diffID = config.RootFS.DiffIDs[n]
		}

		entries[n], err = c.readLayer(ctx, r, layer, manifest.Layers[n], diffID, t.arch)
		if err != nil && !c.damaged(err, manifest.Layers[n].Digest.String(), t.arch) {
			return err
		}
	}

	t.entries = flatten(entries)
	t.finish()
	c.trees = append(c.trees, t)

	return nil
}

// readLayer reads one layer by what it contains, and compares that with what manifest and configuration say.
func (c *contents) readLayer(ctx context.Context, r *reader, layer v1.Layer, d v1.Descriptor, diffID v1.Hash, arch string) ([]*entry, error) {
	compressed, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer compressed.Close()

	stored, unpacked := sha256.New(), sha256.New()

	raw := io.TeeReader(compressed, stored)

	content, compression, err := oci.Decompress(raw)
	if err != nil {
		return nil, err
	}
	defer content.Close()

	var entries []*entry

	body := io.TeeReader(content, unpacked)

	err = r.readTree(ctx, body, func(e *entry) { entries = append(entries, e) })
	if err != nil {
		return entries, err
	}

	// What follows the end of the archive counts for the digests.
	for _, rest := range []io.Reader{body, raw} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return entries, err
		}
	}

	where := d.Digest.String()

	if got := "sha256:" + hex.EncodeToString(stored.Sum(nil)); got != where {
		c.problem("oci-damaged", where, arch, "the layer's bytes have the digest %s", got)
	} else if got := "sha256:" + hex.EncodeToString(unpacked.Sum(nil)); got != diffID.String() {
		c.problem("oci-diff-id", where, arch, "the layer unpacks to %s, the image configuration says %s", got, diffID)
	}

	if want, ok := compressionOf(d.MediaType); !ok {
		c.problem("oci-layer-media-type", where, arch, "the layer's media type %q is none of an image's", d.MediaType)
	} else if want != compression {
		c.problem("oci-layer-media-type", where, arch, "the layer is called %s and is %s", d.MediaType, compressionName(compression))
	}

	return entries, nil
}

func compressionOf(mediaType types.MediaType) (oci.Compression, bool) {
	switch mediaType {
	case types.OCILayer, types.DockerLayer:
		return oci.Gzip, true
	case types.OCILayerZStd:
		return oci.Zstd, true
	case types.OCIUncompressedLayer, types.DockerUncompressedLayer:
		return oci.None, true
	default:
		return "", false
	}
}
