package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CopyOption changes how Copy works.
type CopyOption func(*copyOptions)

type copyOptions struct {
	ifAbsent bool
	log      *slog.Logger
	progress Progress
}

// Progress shows that so many bytes are going somewhere; what is written to it has gone there.
type Progress func(what string, total int64) io.WriteCloser

func newCopyOptions(options ...CopyOption) copyOptions {
	chosen := copyOptions{log: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&chosen)
	}

	return chosen
}

// IfAbsent refuses, with a TakenError, to move a tag that names something else.
func IfAbsent() CopyOption { return func(o *copyOptions) { o.ifAbsent = true } }

// WithLog says what happens.
func WithLog(log *slog.Logger) CopyOption { return func(o *copyOptions) { o.log = log } }

// WithProgress shows how far it has come.
func WithProgress(progress Progress) CopyOption {
	return func(o *copyOptions) { o.progress = progress }
}

// TakenError says that a tag names something else already.
type TakenError struct {
	Reference string
	Has, Want v1.Hash
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s names %s already, not %s", e.Reference, e.Has, e.Want)
}

// Copied says what Copy did.
type Copied struct {
	Digest v1.Hash
	// Uploaded and Present count blobs that were sent and that were there; Bytes are those sent.
	Uploaded, Present int
	Bytes             int64
	Attachments       int
}

// Copy publishes what a store holds under a reference: blobs, then the manifests of images, then
// their index, then attachments, and at last the tag. So the tag never names something that is not there as a
// whole. What is there already is not sent again; after a failure, the next call goes on.
func Copy(ctx context.Context, from Store, to *Repository, options ...CopyOption) (Copied, error) {
	copied, err := to.copy(ctx, from, newCopyOptions(options...))
	if taken := (*TakenError)(nil); err != nil && !errors.As(err, &taken) {
		err = fmt.Errorf("pushing %s to %s: %w", from.Name(), to.Name(), err)
	}

	return copied, err
}

func (r *Repository) copy(ctx context.Context, from Store, o copyOptions) (Copied, error) {
	subjects, err := from.Subjects(ctx)
	if err != nil {
		return Copied{}, err
	}

	root := subjects[0].Descriptor.Digest

	tagged, err := r.mayTag(ctx, root, o.ifAbsent)
	if err != nil {
		return Copied{}, err
	}

	t := newTransfer(o)

	images := make([]v1.Image, 0, len(subjects))

	for _, subject := range subjects {
		if subject.Image != nil {
			images = append(images, subject.Image)
		}
	}

	if err := r.upload(ctx, t, images...); err != nil {
		return Copied{}, err
	}

	for _, subject := range slices.Backward(subjects) {
		if err := r.putAll(ctx, subject, 0); err != nil {
			return Copied{}, err
		}
	}

	count := 0

	for _, subject := range subjects {
		attachments, err := from.Attachments(ctx, subject.Descriptor.Digest)
		if err != nil {
			return Copied{}, err
		}

		if attachments, err = r.merge(ctx, attachments); err != nil {
			return Copied{}, err
		}

		if err := r.attach(ctx, t, attachments); err != nil {
			return Copied{}, err
		}

		count += len(attachments)
	}

	if !tagged {
		if err := r.tag(ctx, subjects[0], o.ifAbsent); err != nil {
			return Copied{}, err
		}
	}

	return Copied{Digest: root, Uploaded: t.uploaded, Present: t.present, Bytes: t.bytes, Attachments: count}, nil
}

// mayTag reports whether the reference names the digest already, and refuses to move it if so asked.
func (r *Repository) mayTag(ctx context.Context, want v1.Hash, ifAbsent bool) (bool, error) {
	if digest, ok := r.ref.(name.Digest); ok && digest.DigestStr() != want.String() {
		return false, fmt.Errorf("the reference has a digest, and it is not that of what is pushed: %s", want)
	}

	has, err := r.client.digest(ctx, r.ref)

	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case ifAbsent && has != want:
		return false, &TakenError{r.Name(), has, want}
	default:
		return has == want, nil
	}
}

// tag is the last step. Registries have no "unless it is taken": between the question here and the
// answer, someone else's push may still slip in.
func (r *Repository) tag(ctx context.Context, root Subject, ifAbsent bool) error {
	if ifAbsent {
		if tagged, err := r.mayTag(ctx, root.Descriptor.Digest, true); err != nil || tagged {
			return err
		}
	}

	if err := ctx.Err(); err != nil {
		return err
	}

	return explain(r.client.pusher.Put(ctx, r.ref, root.manifest()))
}

// manifest is the part that a registry stores under a reference.
func (s Subject) manifest() remote.Taggable {
	if s.Index != nil {
		return s.Index
	}

	return s.Image
}

// putAll stores a manifest under its digest, those that it lists before.
func (r *Repository) putAll(ctx context.Context, subject Subject, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}

	if subject.Index != nil {
		manifest, err := subject.Index.IndexManifest()
		if err != nil {
			return fmt.Errorf("reading index %s: %w", subject.Descriptor.Digest, err)
		}

		for _, descriptor := range manifest.Manifests {
			if descriptor.MediaType.IsImage() {
				continue // a subject of its own
			}

			if !descriptor.MediaType.IsIndex() {
				return fmt.Errorf("%s is neither an image nor an index: %s", descriptor.Digest, descriptor.MediaType)
			}

			nested, err := subject.Index.ImageIndex(descriptor.Digest)
			if err != nil {
				return err
			}

			if err := r.putAll(ctx, Subject{Descriptor: descriptor, Index: nested}, depth+1); err != nil {
				return err
			}
		}
	}

	return r.put(ctx, subject.manifest())
}

func (r *Repository) put(ctx context.Context, manifest remote.Taggable) error {
	describable, ok := manifest.(partial.Describable)
	if !ok {
		return fmt.Errorf("unexpected type %T", manifest)
	}

	digest, err := describable.Digest()
	if err != nil {
		return err
	}

	ref := r.digest(digest)

	if there, err := r.has(ctx, ref, digest); err != nil || there {
		return err
	}

	return explain(r.client.pusher.Put(ctx, ref, manifest))
}
