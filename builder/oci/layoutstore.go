package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layout is a Store in an OCI image layout. Attachments are entries of its index.json like any
// other; since they have no platform, readers that choose by platform or by name go on seeing the
// images alone.
type Layout struct {
	blobs blobs
	name  string
	title string
	root  *storedIndex
	// dir is the directory that was opened.
	dir    os.FileInfo
	locked bool
}

var _ Store = (*Layout)(nil)

// LayoutOption changes how a layout is opened.
type LayoutOption func(*layoutOptions)

type layoutOptions struct{ name, title string }

// WithName chooses what a layout of several holds under a name: its
// org.opencontainers.image.ref.name or io.containerd.image.name.
func WithName(name string) LayoutOption {
	return func(o *layoutOptions) { o.name = name }
}

// WithTitle says what the layout is called in messages, when that is not its directory.
func WithTitle(title string) LayoutOption {
	return func(o *layoutOptions) { o.title = title }
}

// OpenLayout finds the one index that a layout publishes. An index that index.json lists is
// published as it is. Where index.json lists images, one for each platform, their index is computed:
// it is not in the layout, because the Talos imager finds only images that index.json lists itself.
func OpenLayout(dir string, options ...LayoutOption) (*Layout, error) {
	var chosen layoutOptions
	for _, option := range options {
		option(&chosen)
	}

	if !IsLayout(dir) {
		return nil, fmt.Errorf("opening layout %s: there is no file oci-layout in it: it is not an OCI image layout", dir)
	}

	l := &Layout{blobs: blobs(dir), name: chosen.name, title: cmp.Or(chosen.title, dir)}

	var err error
	if l.dir, err = os.Stat(dir); err == nil {
		l.root, err = l.findRoot()
	}

	if err != nil {
		return nil, fmt.Errorf("opening layout %s: %w", l.title, err)
	}

	return l, nil
}

// Name is the directory or title and, after a colon, the name in it.
func (l *Layout) Name() string {
	if l.name == "" {
		return l.title
	}

	return l.title + ":" + l.name
}

// layoutEntry is one entry of index.json.
type layoutEntry struct {
	descriptor v1.Descriptor
	// The following are those of an image.
	image    v1.Image
	manifest *v1.Manifest
	// attached says that the entry is an attachment to subject.
	attached bool
	subject  v1.Hash
	tag      string
}

// name is what people call the entry.
func (e layoutEntry) name() string {
	annotations := e.descriptor.Annotations

	return cmp.Or(annotations[ContainerdName], annotations[RefName], e.descriptor.Digest.String())
}

func (e layoutEntry) hasName(name string) bool {
	annotations := e.descriptor.Annotations

	return name == annotations[RefName] || name == annotations[ContainerdName]
}

func (b blobs) entries() (*storedIndex, []layoutEntry, error) {
	top, err := b.top()
	if err != nil {
		return nil, nil, err
	}

	if n := len(top.manifest.Manifests); n > maxEntries {
		return nil, nil, fmt.Errorf("index.json: %d entries are more than %d", n, maxEntries)
	}

	entries := make([]layoutEntry, 0, len(top.manifest.Manifests))

	for _, descriptor := range top.manifest.Manifests {
		entry := layoutEntry{descriptor: descriptor}

		if descriptor.MediaType.IsImage() {
			if entry.image, entry.manifest, err = b.image(descriptor); err != nil {
				return nil, nil, err
			}

			entry.subject, entry.tag, entry.attached = attachedTo(descriptor, entry.manifest)

			// One of them would be lost where tags are unique, and anybody's could be the one that stays.
			if entry.tag != "" && slices.ContainsFunc(entries, func(e layoutEntry) bool { return e.tag == entry.tag }) {
				return nil, nil, fmt.Errorf("index.json: there are two entries for %s", entry.tag)
			}
		}

		entries = append(entries, entry)
	}

	return top, entries, nil
}

func (l *Layout) findRoot() (*storedIndex, error) {
	top, entries, err := l.blobs.entries()
	if err != nil {
		return nil, err
	}

	roots := slices.DeleteFunc(slices.Clone(entries), func(e layoutEntry) bool { return e.attached })
	all := names(roots)

	if l.name != "" {
		roots = slices.DeleteFunc(roots, func(e layoutEntry) bool { return !e.hasName(l.name) })
	}

	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("it holds no image")
	case len(roots) == 0:
		return nil, fmt.Errorf("nothing in it is named %s; there is %s", l.name, all)
	case len(roots) == 1 && roots[0].descriptor.MediaType.IsIndex():
		return l.blobs.index(roots[0].descriptor)
	}

	index, err := l.blobs.flat(top.manifest.Annotations, roots)
	if err != nil {
		return nil, err
	}

	if index == nil {
		return nil, fmt.Errorf("it holds more than one image for a platform: choose one of %s", all)
	}

	return index, nil
}

func names(entries []layoutEntry) string {
	all := make([]string, 0, len(entries))
	for _, entry := range entries {
		all = append(all, entry.name())
	}

	return strings.Join(all, ", ")
}

// flat returns the index of images that differ by platform; nil when they are not that.
func (b blobs) flat(annotations map[string]string, entries []layoutEntry) (*storedIndex, error) {
	index := &v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: annotations, Manifests: []v1.Descriptor{}}

	for _, entry := range entries {
		if entry.image == nil || !isSystem(entry.descriptor, entry.manifest) {
			return nil, nil
		}

		platform := entry.descriptor.Platform
		if platform == nil {
			config, err := entry.image.ConfigFile()
			if err != nil {
				return nil, fmt.Errorf("reading configuration of %s: %w", entry.descriptor.Digest, err)
			}

			if platform = config.Platform(); platform == nil {
				return nil, fmt.Errorf("image %s says nowhere what platform it is for", entry.descriptor.Digest)
			}
		}

		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: entry.descriptor.MediaType,
			Digest:    entry.descriptor.Digest,
			Size:      entry.descriptor.Size,
			Platform:  platform,
		})
	}

	slices.SortFunc(index.Manifests, func(x, y v1.Descriptor) int {
		return cmp.Or(cmp.Compare(x.Platform.String(), y.Platform.String()), cmp.Compare(x.Digest.Hex, y.Digest.Hex))
	})

	for i, descriptor := range index.Manifests {
		if i > 0 && descriptor.Platform.Equals(*index.Manifests[i-1].Platform) {
			return nil, nil
		}
	}

	raw, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}

	return b.parseIndex(raw, types.OCIImageIndex)
}

// Subjects returns the index that the layout publishes, then the images below it.
func (l *Layout) Subjects(_ context.Context) ([]Subject, error) {
	subjects, err := l.subjects()
	if err != nil {
		return nil, fmt.Errorf("reading layout %s: %w", l.Name(), err)
	}

	return subjects, nil
}

func (l *Layout) subjects() ([]Subject, error) {
	root, err := partial.Descriptor(l.root)
	if err != nil {
		return nil, err
	}

	subjects := []Subject{{Descriptor: *root, Index: l.root}}
	left := maxEntries

	err = l.root.walk(0, &left, func(descriptor v1.Descriptor, image v1.Image, _ *v1.Manifest) error {
		if !slices.ContainsFunc(subjects, func(s Subject) bool { return s.Descriptor.Digest == descriptor.Digest }) {
			subjects = append(subjects, Subject{Descriptor: descriptor, Image: image})
		}

		return nil
	})

	return subjects, err
}

// Attachments returns what the layout has about a manifest.
func (l *Layout) Attachments(_ context.Context, subject v1.Hash) ([]Attachment, error) {
	_, entries, err := l.blobs.entries()
	if err != nil {
		return nil, fmt.Errorf("reading layout %s: %w", l.Name(), err)
	}

	var attachments []Attachment

	for _, entry := range entries {
		if entry.attached && entry.subject == subject {
			attachments = append(attachments, newAttachment(subject, entry.tag, entry.descriptor, entry.image, entry.manifest))
		}
	}

	return attachments, sortAttachments(attachments)
}
