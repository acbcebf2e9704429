package oci

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// legacyTag matches what LegacyTag returns; sbom is an older kind, of others.
var legacyTag = regexp.MustCompile(`^sha256-([0-9a-f]{64})\.(sig|att|sbom)$`)

// legacySubject returns what a legacy tag is about.
func legacySubject(tag string) (v1.Hash, bool) {
	match := legacyTag.FindStringSubmatch(tag)
	if match == nil {
		return v1.Hash{}, false
	}

	return v1.Hash{Algorithm: "sha256", Hex: match[1]}, true
}

// TagAnnotation keeps the legacy tag of an entry in index.json where its name must not: `ctr images
// import` takes every name for that of one more image to unpack.
const TagAnnotation = "dev.cnibake.attachment.tag"

// tagOf returns the legacy tag of an entry, if it is one.
func tagOf(descriptor v1.Descriptor) string {
	return cmp.Or(descriptor.Annotations[TagAnnotation], descriptor.Annotations[RefName])
}

// isNamed reports whether other readers of a layout know an entry by a name.
func isNamed(annotations map[string]string) bool {
	name := annotations[RefName]

	return annotations[ContainerdName] != "" || name != "" && !legacyTag.MatchString(name)
}

// attachedTo tells an entry of a layout that says something about another one from an image. Such
// an entry has no platform and no name, so that whoever looks for an image by either passes it over:
// else anybody's image could be attached under the name of a signed one, and be taken for it.
func attachedTo(descriptor v1.Descriptor, manifest *v1.Manifest) (subject v1.Hash, tag string, ok bool) {
	name := tagOf(descriptor)
	if descriptor.Platform != nil || isNamed(descriptor.Annotations) {
		return v1.Hash{}, "", false
	}

	if subject, ok := legacySubject(name); ok {
		return subject, name, true
	}

	if manifest.Subject == nil {
		return v1.Hash{}, "", false
	}

	return manifest.Subject.Digest, "", true
}

// isSystem tells the image of an operating system from signatures, attestations and other things
// that are stored as images.
func isSystem(descriptor v1.Descriptor, manifest *v1.Manifest) bool {
	_, _, attached := attachedTo(descriptor, manifest)

	return !attached && manifest.Config.MediaType.IsConfig()
}

// newAttachment describes a manifest that is attached to another. Where the index has no artifact
// type, it is the manifest's, as are the annotations: that is how a registry has it.
func newAttachment(subject v1.Hash, tag string, descriptor v1.Descriptor, image v1.Image, manifest *v1.Manifest) Attachment {
	attachment := Attachment{Subject: subject, Tag: tag, Image: image}

	if tag == "" {
		attachment.ArtifactType = cmp.Or(descriptor.ArtifactType, manifest.ArtifactType, string(manifest.Config.MediaType))
		// Names are not: in a layout they would be those of an image.
		attachment.Annotations = maps.Clone(manifest.Annotations)
		delete(attachment.Annotations, RefName)
		delete(attachment.Annotations, ContainerdName)
	}

	return attachment
}

// sortAttachments puts them into the order that Store promises.
func sortAttachments(attachments []Attachment) error {
	var failed error

	slices.SortFunc(attachments, func(a, b Attachment) int {
		if (a.Tag == "") != (b.Tag == "") {
			return -cmp.Compare(a.Tag, b.Tag)
		}

		x, err := a.Image.Digest()
		y, err2 := b.Image.Digest()
		failed = errors.Join(failed, err, err2)

		return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(x.Hex, y.Hex))
	})

	return failed
}

// Entry describes it in index.json. tag is the annotation that has the tag, if it has one.
func (a Attachment) Entry(tag string) (v1.Descriptor, error) {
	descriptor, err := partial.Descriptor(a.Image)
	if err != nil {
		return v1.Descriptor{}, err
	}

	entry := v1.Descriptor{MediaType: descriptor.MediaType, Digest: descriptor.Digest, Size: descriptor.Size}
	if a.Tag == "" {
		entry.ArtifactType, entry.Annotations = a.ArtifactType, a.Annotations
	} else {
		entry.Annotations = map[string]string{tag: a.Tag}
	}

	return entry, nil
}

// check refuses what no reader would find.
func (a Attachment) check() (*v1.Manifest, error) {
	manifest, err := a.Image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}

	if a.Tag != "" {
		if subject, ok := legacySubject(a.Tag); !ok || subject != a.Subject {
			return nil, fmt.Errorf("the tag %s is not one for %s", a.Tag, a.Subject)
		}

		return manifest, nil
	}

	if manifest.Subject == nil || manifest.Subject.Digest != a.Subject {
		return nil, fmt.Errorf("the manifest has neither a tag nor %s as its subject", a.Subject)
	}

	return manifest, nil
}
