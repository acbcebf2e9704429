package oci

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Store is where one published image lives with what is attached to it: an OCI image layout or a
// repository of a registry. Both know the same things by different means, so that signing,
// verifying and copying need not care which of them they look at.
type Store interface {
	// Name says in messages where this is.
	Name() string
	// Subjects returns what can be signed: the root, which is an index or a single image, then the
	// images that an index lists. Manifests have the digests by which they are listed.
	Subjects(ctx context.Context) ([]Subject, error)
	// Attachments returns what is attached to a manifest, first by legacy tag, then by subject, in a
	// stable order.
	Attachments(ctx context.Context, subject v1.Hash) ([]Attachment, error)
	// Attach stores attachments. One with a tag takes the place of another with the same tag; a
	// manifest that is there already is not stored twice.
	Attach(ctx context.Context, attachments ...Attachment) error
}

// Subject is an index or an image: something that can be signed.
type Subject struct {
	// Descriptor has the platform of an image that is listed by an index.
	Descriptor v1.Descriptor
	// Exactly one of Index and Image is set.
	Index v1.ImageIndex
	Image v1.Image
}

// Attachment is a manifest that says something about another one: a signature, an attestation, an
// SBOM.
type Attachment struct {
	// Subject is the digest of the manifest it is about.
	Subject v1.Hash
	// Tag is how cosign's older format finds it: sha256-HEX.sig for signatures, sha256-HEX.att for
	// attestations. It is empty for an OCI 1.1 referrer, whose manifest names its subject itself.
	Tag string
	// ArtifactType and Annotations go into the descriptor of a referrer.
	ArtifactType string
	Annotations  map[string]string
	// Image is the manifest with its configuration and layers.
	Image v1.Image
}

// LegacyTag returns the tag under which cosign's older format keeps what belongs to a manifest.
// Suffix is "sig" or "att".
func LegacyTag(subject v1.Hash, suffix string) string {
	return subject.Algorithm + "-" + subject.Hex + "." + suffix
}
