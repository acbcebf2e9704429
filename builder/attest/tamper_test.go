package attest_test

import (
	"maps"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// refused checks that a store does not verify, and that the error names all the culprits.
func refused(t *testing.T, store oci.Store, policy attest.Policy, culprits ...string) {
	t.Helper()

	_, err := attest.Verify(t.Context(), store, policy)
	if !attest.IsRefusal(err) {
		t.Fatalf("it is not refused: %v", err)
	}

	for _, culprit := range culprits {
		if !strings.Contains(err.Error(), culprit) {
			t.Errorf("%q does not name %s", err, culprit)
		}
	}
}

// attachmentOf returns the attachment to a subject whose tag or predicate type is the one wanted.
func attachmentOf(t *testing.T, store oci.Store, subject v1.Hash, want string) oci.Attachment {
	t.Helper()

	all, err := store.Attachments(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}

	i := slices.IndexFunc(all, func(a oci.Attachment) bool {
		return strings.HasSuffix(a.Tag, "."+want) || slices.Contains(slices.Collect(maps.Values(a.Annotations)), want)
	})
	if i < 0 {
		t.Fatalf("%s has no attachment %s", subject, want)
	}

	return all[i]
}

func layerOf(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()

	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}

	return manifest.Layers[len(manifest.Layers)-1].Digest
}

// One changed bit in any kind of blob is refused, in a layout and from a registry that serves it.
func TestAlteredBlobIsRefused(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	original := filepath.Join(out, "talos")
	layout := open(t, original)
	signer, trust := keyPair(t)

	signed(t, out, layout, signer)

	subjects, err := layout.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	image := subjects[1]

	manifest, err := image.Image.Manifest()
	if err != nil {
		t.Fatal(err)
	}

	digest := image.Descriptor.Digest
	sbom := attachmentOf(t, layout, digest, attest.SPDX)

	for kind, blob := range map[string]v1.Hash{
		"layer":               layerOf(t, image.Image),
		"configuration":       manifest.Config.Digest,
		"manifest":            digest,
		"signature":           layerOf(t, attachmentOf(t, layout, digest, "sig").Image),
		"attestation":         layerOf(t, attachmentOf(t, layout, digest, "att").Image),
		"bundle":              layerOf(t, attachmentOf(t, layout, digest, "https://sigstore.dev/cosign/sign/v1").Image),
		"SBOM":                layerOf(t, sbom.Image),
		"provenance of index": layerOf(t, attachmentOf(t, layout, subjects[0].Descriptor.Digest, attest.Provenance).Image),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			data, err := os.ReadFile(filepath.Join(original, "blobs", "sha256", blob.Hex))
			if err != nil {
				t.Fatal(err)
			}

			data[len(data)/2] ^= 1

			dir := filepath.Join(t.TempDir(), "talos")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", blob.Hex), data, 0o644); err != nil {
				t.Fatal(err)
			}

			altered, err := oci.OpenLayout(dir)
			if err == nil {
				refused(t, altered, buildertest.Policy(t, trust), blob.String())
			} else if !attest.IsRefusal(err) || !strings.Contains(err.Error(), blob.String()) {
				t.Errorf("opening: %v", err)
			}

			refused(t, servedWith(t, layout, blob, data), buildertest.Policy(t, trust), blob.String())
		})
	}
}

// servedWith pushes a layout to a registry that then serves other bytes for one digest.
func servedWith(t *testing.T, layout *oci.Layout, blob v1.Hash, data []byte) *oci.Repository {
	t.Helper()

	honest := registry.New(registry.WithReferrersSupport(true), registry.Logger(discard))

	server := httptest.NewServer(honest)
	t.Cleanup(server.Close)

	repository := pushed(t, strings.TrimPrefix(server.URL, "http://"), layout)

	server.Config.Handler = lying{honest, blob, data}

	return repository
}

// What is attached is about the subject it is attached to, and by the key that is believed.
func TestAttachmentsAreHeldToTheirSubject(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	original := open(t, filepath.Join(out, "talos"))
	stated := statements(t, out)
	signer, trust := keyPair(t)
	stranger, _ := keyPair(t)

	signed(t, out, original, signer)

	ours := digests(t, original)
	predicates := []string{"sig", "att", "https://sigstore.dev/cosign/sign/v1", attest.Provenance, attest.SPDX}

	for title, test := range map[string]struct {
		change func(t *testing.T, layout rebuilt)
		want   []string
	}{
		"not signed": {func(*testing.T, rebuilt) {}, []string{"not signed"}},
		"signed by another key": {func(t *testing.T, layout rebuilt) {
			sign(t, layout, stranger, layout.restated(t, stated))
		}, []string{"not signed by " + trust.Name}},
		"attested by another key": {func(t *testing.T, layout rebuilt) {
			sign(t, layout, signer, nil)
			sign(t, layout, stranger, layout.restated(t, stated))
		}, []string{"no attestation https://slsa.dev/provenance/v1"}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			layout := rebuild(t, original, nil, nil)
			test.change(t, layout)
			refused(t, layout, buildertest.Policy(t, trust), append(test.want, digests(t, layout)[0].String())...)
		})
	}

	// Everything that is attached to one image is attached to another, kind by kind; the other has all it
	// needs otherwise.
	for _, kind := range predicates {
		t.Run("replayed "+path.Base(kind), func(t *testing.T) {
			t.Parallel()

			layout := rebuild(t, original, nil, nil)
			sign(t, layout, signer, layout.restated(t, stated))

			replay(t, original, layout, ours[1], digests(t, layout)[1], kind)
			refused(t, layout, buildertest.Policy(t, trust), digests(t, layout)[1].String(), ours[1].String())
		})
	}

	t.Run("stripped from one image", func(t *testing.T) {
		t.Parallel()

		layout := rebuild(t, original, nil, nil)
		sign(t, layout, signer, layout.restated(t, stated))

		victim := digests(t, layout)[2]
		strip(t, layout, victim)
		refused(t, layout, buildertest.Policy(t, trust), victim.String(), "not signed")
	})

	t.Run("bundle that names our key", func(t *testing.T) {
		t.Parallel()

		layout := rebuild(t, original, nil, nil)
		sign(t, layout, signer, layout.restated(t, stated))

		forge(t, layout, signer, stranger)
		refused(t, layout, buildertest.Policy(t, trust), "says it is by "+trust.Name)
	})

	t.Run("moved tag", func(t *testing.T) {
		t.Parallel()

		server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(discard)))
		t.Cleanup(server.Close)

		host := strings.TrimPrefix(server.URL, "http://")
		repository := pushed(t, host, original)

		if _, err := attest.Verify(t.Context(), repository, buildertest.Policy(t, trust)); err != nil {
			t.Fatal(err)
		}

		tag, err := name.NewTag(host + "/talos/cni-plugins:v1")
		if err != nil {
			t.Fatal(err)
		}

		if err := remote.Write(tag, empty.Image); err != nil {
			t.Fatal(err)
		}

		digest, err := empty.Image.Digest()
		if err != nil {
			t.Fatal(err)
		}

		refused(t, repository, buildertest.Policy(t, trust), digest.String(), "not signed")
	})
}
