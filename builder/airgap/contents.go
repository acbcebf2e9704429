package airgap

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/oci"
)

const (
	indexName   = "index.json"
	markerName  = "oci-layout"
	imagesName  = "images.txt"
	blobsDir    = "blobs/sha256/"
	marker      = `{"imageLayoutVersion":"1.0.0"}`
	maxUnpacked = 8 << 30
)

// contents collects what a bundle holds of images.
type contents struct {
	images  []Image
	entries []v1.Descriptor
	blobs   map[string]member
	// unpacked is the size of all layers, in bytes.
	unpacked int64
}

// add collects one image with everything that is attached to it.
func (c *contents) add(ctx context.Context, name string, store oci.Store) error {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return err
	}

	root := subjects[0]
	if root.Index == nil {
		return fmt.Errorf("%s holds a single image instead of an index", store.Name())
	}

	raw, err := root.Index.RawManifest()
	if err != nil {
		return err
	}

	manifest, err := root.Index.IndexManifest()
	if err != nil {
		return err
	}

	if slices.ContainsFunc(manifest.Manifests, func(d v1.Descriptor) bool { return !d.MediaType.IsImage() }) {
		return fmt.Errorf("%s lists something else than images", store.Name())
	}

	c.addBlob(bytesMember(blobsDir+root.Descriptor.Digest.Hex, raw))
	c.entries = append(c.entries, v1.Descriptor{
		MediaType:   root.Descriptor.MediaType,
		Digest:      root.Descriptor.Digest,
		Size:        root.Descriptor.Size,
		Annotations: map[string]string{oci.RefName: name, oci.ContainerdName: name},
	})

	image := Image{Name: name, Digest: root.Descriptor.Digest.String()}

	var attached []v1.Descriptor

	for _, subject := range subjects {
		if subject.Image != nil {
			platform, err := c.addPlatform(ctx, subject)
			if err != nil {
				return err
			}

			image.Platforms = append(image.Platforms, platform)
		}

		attachments, err := store.Attachments(ctx, subject.Descriptor.Digest)
		if err != nil {
			return err
		}

		for _, attachment := range attachments {
			entry, err := c.addAttachment(attachment)
			if err != nil {
				return fmt.Errorf("%s: %w", store.Name(), err)
			}

			attached = append(attached, entry)
		}
	}

	image.Attachments = len(attached)
	c.images = append(c.images, image)
	c.entries = append(c.entries, attached...)

	return nil
}

func (c *contents) addPlatform(ctx context.Context, subject oci.Subject) (Platform, error) {
	digest := subject.Descriptor.Digest.String()

	size, err := c.addImage(subject.Image)
	if err != nil {
		return Platform{}, fmt.Errorf("reading image %s: %w", digest, err)
	}

	platform := Platform{Digest: digest, Compressed: size}

	if p := subject.Descriptor.Platform; p != nil {
		platform.Platform = p.String()
	}

	layers, err := subject.Image.Layers()
	if err != nil {
		return Platform{}, fmt.Errorf("reading image %s: %w", digest, err)
	}

	for _, layer := range layers {
		// A few bytes can unpack to very many, and be listed again and again.
		unpacked, err := unpackedSize(ctx, layer, maxUnpacked-c.unpacked)
		if err != nil {
			return Platform{}, fmt.Errorf("reading image %s: %w", digest, err)
		}

		c.unpacked += unpacked
		platform.Unpacked += unpacked
	}

	return platform, nil
}

// unpackedSize returns the number of bytes of a layer's tar, of which there may be so many.
func unpackedSize(ctx context.Context, layer v1.Layer, left int64) (int64, error) {
	compressed, err := layer.Compressed()
	if err != nil {
		return 0, err
	}
	defer compressed.Close()

	content, _, err := oci.Decompress(compressed)
	if err != nil {
		return 0, err
	}
	defer content.Close()

	size, err := io.Copy(io.Discard, io.LimitReader(contextReader{ctx, content}, left+1))
	if err == nil && size > left {
		err = fmt.Errorf("its layers and those before it unpack to more than %d bytes", int64(maxUnpacked))
	}

	return size, err
}

func (c *contents) addAttachment(attachment oci.Attachment) (v1.Descriptor, error) {
	entry, err := attachment.Entry(oci.TagAnnotation)
	if err != nil {
		return v1.Descriptor{}, err
	}

	if _, err := c.addImage(attachment.Image); err != nil {
		return v1.Descriptor{}, fmt.Errorf("reading attachment %s: %w", entry.Digest, err)
	}

	return entry, nil
}

// addImage collects a manifest, its configuration and its layers, and returns their size together.
func (c *contents) addImage(image v1.Image) (int64, error) {
	raw, err := image.RawManifest()
	if err != nil {
		return 0, err
	}

	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}

	config, err := image.RawConfigFile()
	if err != nil {
		return 0, err
	}

	c.addBlob(bytesMember(blobsDir+hexSum(raw), raw))
	c.addBlob(bytesMember(blobsDir+hexSum(config), config))

	size := int64(len(raw) + len(config))

	for _, descriptor := range manifest.Layers {
		layer, err := image.LayerByDigest(descriptor.Digest)
		if err != nil {
			return 0, err
		}

		size += descriptor.Size
		c.addBlob(member{blobsDir + descriptor.Digest.Hex, descriptor.Size, descriptor.Digest.Hex, layer.Compressed})
	}

	return size, nil
}

func (c *contents) addBlob(m member) {
	if c.blobs == nil {
		c.blobs = make(map[string]member)
	}

	c.blobs[m.name] = m
}

// members returns the layout and images.txt.
func (c *contents) members() ([]member, error) {
	index, err := c.index()
	if err != nil {
		return nil, err
	}

	members := slices.Collect(maps.Values(c.blobs))

	return append(members, bytesMember(markerName, []byte(marker)), bytesMember(indexName, index), bytesMember(imagesName, c.list())), nil
}

func (c *contents) index() ([]byte, error) {
	// A build may have no image; null would be no list.
	entries := append([]v1.Descriptor{}, c.entries...)

	return json.MarshalIndent(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: entries}, "", "  ")
}
