package attest_test

import (
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// Signing again adds nothing, and signatures of others stay, in every kind of store.
func TestSigningAgain(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	layout := open(t, filepath.Join(out, "talos"))
	first, firstTrust := keyPair(t)
	second, secondTrust := keyPair(t)
	stated := statements(t, out)

	for title, start := range registries {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			store := pushed(t, start(t), layout)

			for i, who := range []*attest.Signer{first, first, second, second, first} {
				want := 2
				if i == 1 || i > 2 {
					want = 0
				}

				for _, do := range []func() ([]attest.Done, error){
					func() ([]attest.Done, error) { return attest.Sign(t.Context(), store, who, "registry.example/cni") },
					func() ([]attest.Done, error) { return attest.Attest(t.Context(), store, who, stated) },
				} {
					done, err := do()
					if err != nil || len(done) != 3 {
						t.Fatalf("round %d: %+v, %v", i, done, err)
					}

					for _, one := range done {
						if len(one.Added) != want {
							t.Errorf("round %d: %+v", i, one)
						}
					}
				}
			}

			for _, trust := range []*attest.Trust{firstTrust, secondTrust} {
				report, err := attest.Verify(t.Context(), store, buildertest.Policy(t, trust))
				if err != nil {
					t.Fatal(err)
				}

				// Of each subject the other's signature, as often as it is there, and his statements.
				if want := 3*2 + 1*2 + 2*4; len(report.Warnings) != want {
					t.Errorf("%d warnings instead of %d: %q", len(report.Warnings), want, report.Warnings)
				}
			}
		})
	}
}

// A newer statement takes the place of the older one that readers of the older format see.
func TestNewerStatementReplacesOlder(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	layout := open(t, filepath.Join(out, "talos"))
	signer, trust := keyPair(t)
	digest := digests(t, layout)[0]

	for _, predicate := range []string{`{"n":1}`, `{"n":2}`} {
		statement := attest.NewStatement("talos", digest.String(), "https://example.org/scan", []byte(predicate))
		if _, err := attest.Attest(t.Context(), layout, signer, []attest.Statement{statement}); err != nil {
			t.Fatal(err)
		}
	}

	manifest, err := attachmentOf(t, layout, digest, "att").Image.Manifest()
	if err != nil || len(manifest.Layers) != 1 {
		t.Errorf("%d attestations, %v", len(manifest.Layers), err)
	}

	signed(t, out, layout, signer)

	report, err := attest.Verify(t.Context(), layout, buildertest.Policy(t, trust))
	if err != nil {
		t.Fatal(err)
	}

	if !slices.Contains(report.Subjects[0].Attested, "https://example.org/scan") {
		t.Errorf("the index is attested as %q", report.Subjects[0].Attested)
	}

	other := attest.NewStatement("talos", "sha256:00", attest.SPDX, []byte(`{}`))
	if _, err := attest.Attest(t.Context(), layout, signer, []attest.Statement{other}); err == nil {
		t.Error("a statement about something else was attached")
	}
}

// Whatever else is attached to an image, of whatever size, is nobody's signature.
func TestOtherAttachmentsAreLeftAlone(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	layout := open(t, filepath.Join(out, "talos"))
	signer, trust := keyPair(t)

	signed(t, out, layout, signer)

	subjects, err := layout.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	large, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(make([]byte, 40<<20), "application/x-scan"))
	if err != nil {
		t.Fatal(err)
	}

	image, ok := mutate.Subject(large, subjects[1].Descriptor).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}

	if err := layout.Attach(t.Context(), oci.Attachment{Subject: subjects[1].Descriptor.Digest, ArtifactType: "application/x-scan", Image: image}); err != nil {
		t.Fatal(err)
	}

	if _, err := attest.Verify(t.Context(), layout, buildertest.Policy(t, trust)); err != nil {
		t.Error(err)
	}
}

// Two who sign one layout at the same time both end up in the tags, which hold one manifest.
func TestSignersDoNotUndoEachOther(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	dir := filepath.Join(out, "talos")

	var (
		group  errgroup.Group
		trusts []*attest.Trust
	)

	for range 4 {
		signer, trust := keyPair(t)
		trusts = append(trusts, trust)

		group.Go(func() error {
			layout, err := oci.OpenLayout(dir)
			if err != nil {
				return err
			}

			_, err = attest.Sign(t.Context(), layout, signer, "")

			return err
		})
	}

	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	for _, trust := range trusts {
		policy := buildertest.Policy(t, trust)
		policy.SignatureOnly = true

		report, err := attest.Verify(t.Context(), open(t, dir), policy)
		if err != nil {
			t.Fatal(err)
		}

		for _, subject := range report.Subjects {
			if len(subject.Signed) != 2 {
				t.Errorf("%s is signed by %s as %v", subject.Digest, trust.Name, subject.Signed)
			}
		}
	}
}
