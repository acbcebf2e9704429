package oci

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// merge returns attachments that take nothing away: where the repository has others' signatures under a
// legacy tag, those stay and ours come after them.
func (r *Repository) merge(ctx context.Context, attachments []Attachment) ([]Attachment, error) {
	merged := slices.Clone(attachments)

	for i, ours := range attachments {
		if ours.Tag == "" {
			continue
		}

		there, err := r.attachment(ctx, r.ref.Context().Tag(ours.Tag), v1.Descriptor{}, ours.Subject, ours.Tag)
		if errors.Is(err, ErrNotFound) {
			continue
		}

		if err == nil {
			merged[i].Image, err = union(there.Image, ours.Image)
		}

		if err != nil {
			return nil, fmt.Errorf("adding to what is there as %s: %w", ours.Tag, err)
		}
	}

	return merged, nil
}

// union returns an image with the layers of both: one of the two where that has all of them.
func union(there, ours v1.Image) (v1.Image, error) {
	theirs, err := there.Manifest()
	if err != nil {
		return nil, err
	}

	manifest, err := ours.Manifest()
	if err != nil {
		return nil, err
	}

	if len(lacking(manifest.Layers, theirs.Layers)) == 0 {
		return ours, nil
	}

	for _, descriptor := range lacking(theirs.Layers, manifest.Layers) {
		layer, err := ours.LayerByDigest(descriptor.Digest)
		if err != nil {
			return nil, err
		}

		there, err = mutate.Append(there, mutate.Addendum{Layer: layer, Annotations: descriptor.Annotations, MediaType: descriptor.MediaType})
		if err != nil {
			return nil, err
		}
	}

	return there, nil
}

// lacking returns those of the wanted layers that are not there. Signatures of one thing are layers with the
// same bytes, and differ by annotations.
func lacking(there, wanted []v1.Descriptor) []v1.Descriptor {
	return slices.DeleteFunc(slices.Clone(wanted), func(w v1.Descriptor) bool {
		return slices.ContainsFunc(there, func(d v1.Descriptor) bool {
			return d.Digest == w.Digest && maps.Equal(d.Annotations, w.Annotations)
		})
	})
}
