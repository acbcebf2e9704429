package oci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/cnibake/cnibake/builder/oci"
)

// signature is stored as cosign's older format stores one.
func signature(t *testing.T, subject v1.Hash, content string) oci.Attachment {
	t.Helper()

	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	image, err := mutate.AppendLayers(image, static.NewLayer([]byte(content+subject.Hex), "application/vnd.dev.cosign.simplesigning.v1+json"))
	if err != nil {
		t.Fatal(err)
	}

	return oci.Attachment{Subject: subject, Tag: oci.LegacyTag(subject, "sig"), Image: image}
}

// referrer is a manifest that names its subject.
func referrer(t *testing.T, subject v1.Descriptor, content string) oci.Attachment {
	t.Helper()

	const artifactType = "application/vnd.dev.sigstore.bundle.v0.3+json"

	annotations := map[string]string{"dev.sigstore.bundle.content": "dsse-envelope"}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), artifactType)

	image, err := mutate.AppendLayers(image, static.NewLayer([]byte(content), artifactType))
	if err != nil {
		t.Fatal(err)
	}

	subject = v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}

	return oci.Attachment{
		Subject: subject.Digest, ArtifactType: artifactType, Annotations: annotations,
		Image: mutate.Subject(mutate.Annotations(image, annotations).(v1.Image), subject).(v1.Image),
	}
}

// attachAll gives every subject of a store a signature and two referrers.
func attachAll(t *testing.T, store oci.Store) {
	t.Helper()

	for _, subject := range subjects(t, store) {
		err := store.Attach(t.Context(), signature(t, subject.Descriptor.Digest, "signed"),
			referrer(t, subject.Descriptor, "bundle"), referrer(t, subject.Descriptor, "provenance"))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// attached describes what is attached to each subject of a store.
func attached(t *testing.T, store oci.Store) []string {
	t.Helper()

	var all []string

	for _, subject := range subjects(t, store) {
		attachments, err := store.Attachments(t.Context(), subject.Descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}

		for _, a := range attachments {
			if err := validate.Image(a.Image, validate.Fast); err != nil {
				t.Errorf("%s in %s: %v", a.Tag, store.Name(), err)
			}

			digest, err := a.Image.Digest()
			if err != nil {
				t.Fatal(err)
			}

			all = append(all, fmt.Sprintln(a.Subject, a.Tag, a.ArtifactType, a.Annotations, digest))
		}
	}

	return all
}

func TestAttachToLayout(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	l := openLayout(t, dir)
	before, images := digests(t, l), len(contents(t, dir))

	attachAll(t, l)

	if diff := cmp.Diff(before, digests(t, openLayout(t, dir))); diff != "" {
		t.Errorf("attaching changed the images (-before +after):\n%s", diff)
	}

	once, list := contents(t, dir), attached(t, l)
	if len(list) != 9 || !strings.Contains(list[0], ".sig ") || strings.Contains(list[1]+list[2], ".sig ") {
		t.Errorf("attachments are %q", list)
	}

	// Again changes nothing, not even the files.
	attachAll(t, openLayout(t, dir))

	if diff := cmp.Diff(once, contents(t, dir)); diff != "" {
		t.Errorf("attaching again changed files (-once +twice):\n%s", diff)
	}

	// Another signature under the same tag takes the place of the first, whose blobs go.
	root := subjects(t, l)[0].Descriptor.Digest
	if err := l.Attach(t.Context(), signature(t, root, "signed anew")); err != nil {
		t.Fatal(err)
	}

	if now := attached(t, l); len(now) != 9 || now[0] == list[0] {
		t.Errorf("attachments are %q", now)
	}

	if got := len(contents(t, dir)); got != len(once) {
		t.Errorf("%d files instead of %d (%d without attachments)", got, len(once), images)
	}

	info, err := os.Stat(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}

	for name := range contents(t, dir) {
		if got, err := os.Stat(filepath.Join(dir, name)); err != nil || got.Mode() != info.Mode() {
			t.Errorf("%s has the mode %v, index.json %v: %v", name, got.Mode(), info.Mode(), err)
		}
	}
}

// Whoever looks for the images of a layout sees them alone.
func TestAttachmentsAreNoImages(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	attachAll(t, openLayout(t, dir))

	images, err := oci.ReadLayout(dir)
	if err != nil || len(images) != 2 {
		t.Errorf("%d images: %v", len(images), err)
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := validate.Index(index, validate.Fast); err != nil {
		t.Error(err)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	for i, d := range manifest.Manifests {
		if (d.Platform != nil) != (i < 2) {
			t.Errorf("entry %d is %+v", i, d)
		}
	}
}

// What is attached by anyone must not be taken for an image by readers that go by name: neither from this
// index.json nor from one that is made of the attachments.
func TestAttachmentsHaveNoNames(t *testing.T) {
	t.Parallel()

	for _, key := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()

			dir := flatLayout(t)
			l := openLayout(t, dir)
			root := subjects(t, l)[0].Descriptor
			name := map[string]string{key: "registry.example/pause:3"}

			attachment := referrer(t, root, "not a bundle")
			attachment.Annotations = nil
			attachment.Image = mutate.Subject(mutate.Annotations(attachment.Image, name).(v1.Image), root).(v1.Image)

			if err := l.Attach(t.Context(), attachment); err != nil {
				t.Fatal(err)
			}

			found, err := openLayout(t, dir).Attachments(t.Context(), root.Digest)
			if err != nil || len(found) != 1 || found[0].Annotations[key] != "" {
				t.Errorf("attached is %+v: %v", found, err)
			}

			for _, named := range []oci.Attachment{attachment, signature(t, root.Digest, "x")} {
				dir := flatLayout(t)
				if err := openLayout(t, dir).Attach(t.Context(), named); err != nil {
					t.Fatal(err)
				}

				annotateLast(t, dir, map[string]string{oci.TagAnnotation: named.Tag, key: name[key]})

				if l, err := oci.OpenLayout(dir); err == nil {
					t.Errorf("a named entry counts as an attachment: %q", attached(t, l))
				}
			}
		})
	}
}

// A build replaces the whole directory.
func TestReplacedLayout(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	l := openLayout(t, dir)
	root := subjects(t, l)[0].Descriptor.Digest

	if err := errors.Join(os.Rename(dir, dir+"-old"), os.Rename(flatLayout(t), dir)); err != nil {
		t.Fatal(err)
	}

	if err := l.Attach(t.Context(), signature(t, root, "late")); err == nil || !strings.Contains(err.Error(), "was replaced meanwhile") {
		t.Errorf("error is %v", err)
	}

	if list := attached(t, openLayout(t, dir)); len(list) != 0 {
		t.Errorf("the new layout has %q", list)
	}
}

// Of two signatures under one tag a registry would keep either.
func TestOneTagTwice(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	l := openLayout(t, dir)
	root := subjects(t, l)[0].Descriptor.Digest

	if err := l.Attach(t.Context(), signature(t, root, "one")); err != nil {
		t.Fatal(err)
	}

	tag := map[string]string{"org.opencontainers.image.ref.name": oci.LegacyTag(root, "sig")}
	annotateLast(t, dir, map[string]string{"org.opencontainers.image.ref.name": oci.LegacyTag(root, "att")})

	if err := l.Attach(t.Context(), signature(t, root, "two")); err != nil {
		t.Fatal(err)
	}

	if found, err := l.Attachments(t.Context(), root); err != nil || len(found) != 2 {
		t.Fatalf("attached is %+v: %v", found, err)
	}

	annotateLast(t, dir, tag)
	annotate(t, dir, 2, tag)

	if found, err := l.Attachments(t.Context(), root); err == nil || !strings.Contains(err.Error(), "two entries for "+oci.LegacyTag(root, "sig")) {
		t.Errorf("attached is %+v: %v", found, err)
	}
}

// annotate gives an entry of index.json other annotations.
func annotate(t *testing.T, dir string, at int, annotations map[string]string) {
	t.Helper()

	path := filepath.Join(dir, "index.json")

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}

	index.Manifests[(at+len(index.Manifests))%len(index.Manifests)].Annotations = annotations

	if data, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func annotateLast(t *testing.T, dir string, annotations map[string]string) {
	t.Helper()
	annotate(t, dir, -1, annotations)
}

func TestAttachRefuses(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	l := openLayout(t, dir)
	before := contents(t, dir)
	root := subjects(t, l)[0].Descriptor
	stranger := sha([]byte("stranger"))

	otherTag := signature(t, root.Digest, "x")
	otherTag.Tag = oci.LegacyTag(stranger, "sig")

	otherSubject := referrer(t, v1.Descriptor{MediaType: types.OCIImageIndex, Digest: stranger, Size: 8}, "x")
	otherSubject.Subject = root.Digest

	withoutTag := signature(t, root.Digest, "x")
	withoutTag.Tag = ""

	// Its layer is not what its manifest says.
	altered := signature(t, root.Digest, "x")
	altered.Image = alteredImage{altered.Image}

	for name, test := range map[string]struct {
		attachment oci.Attachment
		want       string
	}{
		"unknown subject": {signature(t, stranger, "x"), stranger.String() + " is not in it"},
		"another's tag":   {otherTag, "is not one for"},
		"another subject": {otherSubject, "has neither a tag nor"},
		"neither":         {withoutTag, "has neither a tag nor"},
		"altered":         {altered, "it was altered"},
	} {
		if err := l.Attach(t.Context(), test.attachment); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error is %v, want %q", name, err, test.want)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := l.Attach(ctx, signature(t, root.Digest, "x")); err == nil {
		t.Error("attached although cancelled")
	}

	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("refused, but the layout changed (-before +after):\n%s", diff)
	}
}

type alteredImage struct{ v1.Image }

func (alteredImage) LayerByDigest(v1.Hash) (v1.Layer, error) {
	return static.NewLayer([]byte("y"), types.OCILayer), nil
}
