package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// Attach stores attachments to what the layout publishes. index.json is written last and renamed into
// place: whatever happens before, the layout is as it was, except for blobs that nobody asks for.
func (l *Layout) Attach(ctx context.Context, attachments ...Attachment) error {
	if err := l.attach(ctx, attachments); err != nil {
		return fmt.Errorf("attaching to layout %s: %w", l.Name(), err)
	}

	return nil
}

// Lock keeps other programs from attaching until unlock is called: of two that read what is there and add to
// it, one would undo what the other does.
func (l *Layout) Lock() (unlock func(), err error) {
	dir, err := os.Open(string(l.blobs))
	if err != nil {
		return nil, err
	}

	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking layout %s: %w", l.Name(), err), dir.Close())
	}

	l.locked = true

	return func() {
		l.locked = false
		dir.Close()
	}, nil
}

func (l *Layout) attach(ctx context.Context, attachments []Attachment) error {
	if !l.locked {
		unlock, err := l.Lock()
		if err != nil {
			return err
		}
		defer unlock()
	}

	subjects, err := l.subjects()
	if err != nil {
		return err
	}

	mode, err := l.blobs.mode()
	if err != nil {
		return err
	}

	for _, attachment := range attachments {
		if !slices.ContainsFunc(subjects, func(s Subject) bool { return s.Descriptor.Digest == attachment.Subject }) {
			return fmt.Errorf("%s is not in it", attachment.Subject)
		}

		if err := l.blobs.putImage(ctx, attachment, mode); err != nil {
			return err
		}
	}

	return l.blobs.enter(attachments, mode, l.dir)
}

// mode is that of every file in the layout.
func (b blobs) mode() (os.FileMode, error) {
	info, err := os.Stat(filepath.Join(string(b), "index.json"))
	if err != nil {
		return 0, err
	}

	return info.Mode().Perm() &^ 0o111, nil
}

func (b blobs) putImage(ctx context.Context, attachment Attachment, mode os.FileMode) error {
	manifest, err := attachment.check()
	if err != nil {
		return err
	}

	image := attachment.Image

	for _, descriptor := range manifest.Layers {
		layer, err := image.LayerByDigest(descriptor.Digest)
		if err != nil {
			return fmt.Errorf("reading layer %s: %w", descriptor.Digest, err)
		}

		if err := b.put(ctx, descriptor.Digest, descriptor.Size, mode, layer.Compressed); err != nil {
			return err
		}
	}

	descriptor, err := partial.Descriptor(image)
	if err != nil {
		return err
	}

	for _, document := range []struct {
		v1.Descriptor
		read func() ([]byte, error)
	}{{manifest.Config, image.RawConfigFile}, {*descriptor, image.RawManifest}} {
		err := b.put(ctx, document.Digest, document.Size, mode, func() (io.ReadCloser, error) {
			data, err := document.read()

			return io.NopCloser(bytes.NewReader(data)), err
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// put stores a blob, unless it is there.
func (b blobs) put(ctx context.Context, digest v1.Hash, size int64, mode os.FileMode, open func() (io.ReadCloser, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	name, err := b.path(digest)
	if err != nil {
		return err
	}

	if b.has(digest, size) {
		return nil
	}

	content, err := open()
	if err != nil {
		return fmt.Errorf("reading blob %s: %w", digest, err)
	}
	defer content.Close()

	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}

	return ReplaceFile(name, mode, newChecked(content, digest, size))
}

// has reports whether a blob is there and unharmed.
func (b blobs) has(digest v1.Hash, size int64) bool {
	blob, err := b.open(digest, size)
	if err != nil {
		return false
	}
	defer blob.Close()

	_, err = io.Copy(io.Discard, blob)

	return err == nil
}

// enter lists attachments, whose blobs are there, in index.json. opened is the directory that they were put into.
func (b blobs) enter(attachments []Attachment, mode os.FileMode, opened os.FileInfo) error {
	// A build puts a new layout in the place of the old one, which lacks these blobs.
	if now, err := os.Stat(string(b)); err != nil || !os.SameFile(now, opened) {
		return errors.New("it was replaced meanwhile: do it again")
	}

	top, err := b.top()
	if err != nil {
		return err
	}

	index := top.manifest.DeepCopy()

	for _, attachment := range attachments {
		if err := enter(index, attachment); err != nil {
			return err
		}
	}

	if len(index.Manifests) > maxEntries {
		return errTooMany
	}

	// As the library that writes our layouts does it.
	raw, err := json.MarshalIndent(index, "", "   ")
	if err != nil {
		return err
	}

	if bytes.Equal(raw, top.raw) {
		return nil
	}

	if err := ReplaceFile(filepath.Join(string(b), "index.json"), mode, bytes.NewReader(raw)); err != nil {
		return err
	}

	return b.sweep(top.manifest, index)
}

// enter adds one attachment to an index, in the place of one with the same tag.
func enter(index *v1.IndexManifest, attachment Attachment) error {
	entry, err := attachment.Entry(RefName)
	if err != nil {
		return err
	}

	place := slices.IndexFunc(index.Manifests, func(d v1.Descriptor) bool {
		if attachment.Tag != "" {
			return tagOf(d) == attachment.Tag
		}

		return d.Digest == entry.Digest && d.Annotations[RefName] == ""
	})

	if place < 0 {
		index.Manifests = append(index.Manifests, entry)
	} else {
		index.Manifests[place] = entry
	}

	return nil
}

// sweep removes the blobs of entries that were replaced, where nothing else has them.
func (b blobs) sweep(before, after *v1.IndexManifest) error {
	mine := make(map[v1.Hash]bool)

	for _, descriptor := range before.Manifests {
		if slices.ContainsFunc(after.Manifests, func(d v1.Descriptor) bool { return d.Digest == descriptor.Digest }) {
			continue
		}

		_, manifest, err := b.image(descriptor)
		if err != nil {
			return err
		}

		mine[descriptor.Digest], mine[manifest.Config.Digest] = true, true
		for _, layer := range manifest.Layers {
			mine[layer.Digest] = true
		}
	}

	if len(mine) == 0 {
		return nil
	}

	left := maxEntries
	index := &storedIndex{blobs: b, manifest: after}

	err := index.walk(0, &left, func(descriptor v1.Descriptor, _ v1.Image, manifest *v1.Manifest) error {
		for _, used := range append([]v1.Descriptor{descriptor, manifest.Config}, manifest.Layers...) {
			delete(mine, used.Digest)
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for unused blobs: %w", err)
	}

	for digest := range mine {
		name, err := b.path(digest)
		if err != nil {
			return err
		}

		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	return nil
}
