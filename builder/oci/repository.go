package oci

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Repository is a Store in a repository of a registry: what a tag or a digest names there, and what
// is attached to it.
type Repository struct {
	client *Client
	ref    name.Reference
}

var _ Store = (*Repository)(nil)

// Repository returns the store of a reference such as REGISTRY/REPO:TAG. Nothing is asked of the
// registry yet, and what the tag names need not exist.
func (c *Client) Repository(reference string) (*Repository, error) {
	ref, err := c.parse(reference)
	if err != nil {
		return nil, err
	}

	return &Repository{client: c, ref: ref}, nil
}

// Name is the reference as it was given.
func (r *Repository) Name() string { return r.ref.String() }

func (r *Repository) digest(digest v1.Hash) name.Digest {
	return r.ref.Context().Digest(digest.String())
}

// Digest returns what the reference names now; ErrNotFound says that it names nothing.
func (r *Repository) Digest(ctx context.Context) (v1.Hash, error) {
	digest, err := r.client.digest(ctx, r.ref)
	if err != nil {
		return digest, fmt.Errorf("asking for the digest of %s: %w", r.Name(), err)
	}

	return digest, nil
}

// has reports whether the repository has a manifest under a reference.
func (r *Repository) has(ctx context.Context, ref name.Reference, digest v1.Hash) (bool, error) {
	got, err := r.client.digest(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}

	return got == digest, err
}

// Subjects returns what the reference names, then the images below it.
func (r *Repository) Subjects(ctx context.Context) ([]Subject, error) {
	root, err := r.client.get(ctx, r.ref)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", r.Name(), err)
	}

	subjects := []Subject{root}
	if root.Index == nil {
		return subjects, nil
	}

	left := maxEntries
	if subjects, err = r.below(ctx, root.Index, 0, &left, subjects); err != nil {
		return nil, fmt.Errorf("pulling %s: %w", r.Name(), err)
	}

	return subjects, nil
}

func (r *Repository) below(ctx context.Context, index v1.ImageIndex, depth int, left *int, subjects []Subject) ([]Subject, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}

	for _, descriptor := range manifest.Manifests {
		if *left--; *left < 0 {
			return nil, errTooMany
		}

		known := slices.ContainsFunc(subjects, func(s Subject) bool { return s.Descriptor.Digest == descriptor.Digest })
		if known || !descriptor.MediaType.IsIndex() && !descriptor.MediaType.IsImage() {
			continue
		}

		child, err := r.client.get(ctx, r.digest(descriptor.Digest))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", descriptor.Digest, err)
		}

		if child.Index != nil {
			subjects, err = r.below(ctx, child.Index, depth+1, left, subjects)
		} else {
			child.Descriptor = descriptor
			subjects = append(subjects, child)
		}

		if err != nil {
			return nil, err
		}
	}

	return subjects, nil
}

// Attachments returns what the repository has about a manifest.
func (r *Repository) Attachments(ctx context.Context, subject v1.Hash) ([]Attachment, error) {
	attachments, err := r.attachments(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("asking what is attached to %s: %w", r.digest(subject), err)
	}

	return attachments, sortAttachments(attachments)
}

func (r *Repository) attachments(ctx context.Context, subject v1.Hash) ([]Attachment, error) {
	var attachments []Attachment

	for _, suffix := range []string{"att", "sbom", "sig"} {
		tag := LegacyTag(subject, suffix)

		attachment, err := r.attachment(ctx, r.ref.Context().Tag(tag), v1.Descriptor{}, subject, tag)
		if errors.Is(err, ErrNotFound) {
			continue
		}

		if err != nil {
			return nil, err
		}

		attachments = append(attachments, attachment)
	}

	referrers, err := r.referrers(ctx, subject)
	if err != nil {
		return nil, err
	}

	for _, descriptor := range referrers {
		if !descriptor.MediaType.IsImage() {
			continue
		}

		attachment, err := r.attachment(ctx, r.digest(descriptor.Digest), descriptor, subject, "")
		if err != nil {
			return nil, err
		}

		// A list in a tag may be anyone's.
		if _, err := attachment.check(); err == nil {
			attachments = append(attachments, attachment)
		}
	}

	return attachments, nil
}

func (r *Repository) attachment(ctx context.Context, ref name.Reference, descriptor v1.Descriptor, subject v1.Hash, tag string) (Attachment, error) {
	found, err := r.client.get(ctx, ref)
	if err != nil {
		return Attachment{}, fmt.Errorf("%s: %w", ref.Identifier(), err)
	}

	if found.Image == nil {
		return Attachment{}, fmt.Errorf("%s is an index, not an attachment", ref.Identifier())
	}

	manifest, err := found.Image.Manifest()
	if err != nil {
		return Attachment{}, fmt.Errorf("%s: reading manifest: %w", ref.Identifier(), err)
	}

	return newAttachment(subject, tag, descriptor, found.Image, manifest), nil
}

// referrers lists the manifests whose subject is the digest. Registries without the API for it
// (docker-registry 2, for one) have the list under the tag sha256-HEX, which whoever attaches keeps.
func (r *Repository) referrers(ctx context.Context, subject v1.Hash) ([]v1.Descriptor, error) {
	index, err := remote.Referrers(r.digest(subject), remote.WithContext(ctx), remote.Reuse(r.client.puller))
	if err != nil {
		return nil, explain(err)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading list of referrers: %w", err)
	}

	if len(manifest.Manifests) > maxEntries {
		return nil, fmt.Errorf("more than %d referrers", maxEntries)
	}

	return manifest.Manifests, nil
}

// Attach stores attachments, one after the other. Where the registry lacks the API for referrers, the
// list under the tag sha256-HEX is read and written anew for each: of two programs that attach to
// one manifest at the same moment, one may undo the other's entry; doing it again helps.
func (r *Repository) Attach(ctx context.Context, attachments ...Attachment) error {
	return r.attach(ctx, newTransfer(newCopyOptions()), attachments)
}

func (r *Repository) attach(ctx context.Context, t *transfer, attachments []Attachment) error {
	for _, attachment := range attachments {
		if err := r.attachOne(ctx, t, attachment); err != nil {
			return fmt.Errorf("attaching to %s: %w", r.digest(attachment.Subject), err)
		}
	}

	return nil
}

func (r *Repository) attachOne(ctx context.Context, t *transfer, attachment Attachment) error {
	if _, err := attachment.check(); err != nil {
		return err
	}

	descriptor, err := partial.Descriptor(attachment.Image)
	if err != nil {
		return err
	}

	var ref name.Reference = r.digest(descriptor.Digest)
	if attachment.Tag != "" {
		ref = r.ref.Context().Tag(attachment.Tag)
	}

	if err := r.upload(ctx, t, attachment.Image); err != nil {
		return err
	}

	there, err := r.isAttached(ctx, ref, attachment, descriptor.Digest)
	if err != nil || there {
		return err
	}

	// This also keeps the list in the tag, where the registry needs it.
	return explain(r.client.pusher.Put(ctx, ref, attachment.Image))
}

func (r *Repository) isAttached(ctx context.Context, ref name.Reference, attachment Attachment, digest v1.Hash) (bool, error) {
	if there, err := r.has(ctx, ref, digest); err != nil || !there || attachment.Tag != "" {
		return there, err
	}

	referrers, err := r.referrers(ctx, attachment.Subject)

	return slices.ContainsFunc(referrers, func(d v1.Descriptor) bool { return d.Digest == digest }), err
}
