package attest_test

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	cbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/cosign/v2/pkg/types"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigs "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	sigpayload "github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// registries are those that images are signed and verified in.
var registries = map[string]func(t *testing.T) string{
	"referrers API": func(t *testing.T) string { return buildertest.MemoryRegistry(t, true).Host },
	"no referrers":  func(t *testing.T) string { return buildertest.MemoryRegistry(t, false).Host },
	"docker":        func(t *testing.T) string { return buildertest.DockerRegistry(t, false).Host },
}

// pushed copies a layout, with what is attached to it, to a new registry.
func pushed(t *testing.T, host string, layout *oci.Layout) *oci.Repository {
	t.Helper()

	client, err := oci.NewClient(oci.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}

	repository, err := client.Repository(host + "/talos/cni-plugins:v1")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := oci.Copy(t.Context(), layout, repository); err != nil {
		t.Fatal(err)
	}

	return repository
}

// digests are those of everything that is signed in a store.
func digests(t *testing.T, store oci.Store) []v1.Hash {
	t.Helper()

	subjects, err := store.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	all := make([]v1.Hash, len(subjects))
	for i, subject := range subjects {
		all[i] = subject.Descriptor.Digest
	}

	return all
}

// cosignCheck are cosign's own options for a key.
func cosignCheck(t *testing.T, public crypto.PublicKey) *cosign.CheckOpts {
	t.Helper()

	verifier, err := sigs.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}

	return &cosign.CheckOpts{
		SigVerifier: verifier, TrustedMaterial: &root.BaseTrustedMaterial{}, IgnoreTlog: true, IgnoreSCT: true, Offline: true,
	}
}

// cosign's library accepts everything we sign, in every registry and in both formats.
func TestCosignVerifiesWhatWeSign(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	layout := open(t, filepath.Join(out, "talos"))
	private := buildertest.NewKey(t)
	public := private.Public()
	signer, trust := buildertest.Signer(t, private)

	signed(t, out, layout, signer)

	for title, start := range registries {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			host := start(t)
			repository := pushed(t, host, layout)

			for i, digest := range digests(t, layout) {
				ref, err := name.NewDigest(host + "/talos/cni-plugins@" + digest.String())
				if err != nil {
					t.Fatal(err)
				}

				check := cosignCheck(t, public)
				check.ClaimVerifier = cosign.SimpleClaimVerifier

				if _, _, err := cosign.VerifyImageSignatures(t.Context(), ref, check); err != nil {
					t.Errorf("legacy signature of %s: %v", digest, err)
				}

				want := []string{attest.Provenance, attest.SPDX}
				if i == 0 {
					want = want[:1] // the index
				}

				checkLegacyAttestations(t, ref, public, want)
				checkBundles(t, ref, digest, public, append(slices.Clone(want), types.CosignSignPredicateType))
			}

			if _, err := attest.Verify(t.Context(), repository, buildertest.Policy(t, trust)); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkLegacyAttestations(t *testing.T, ref name.Digest, public crypto.PublicKey, want []string) {
	t.Helper()

	check := cosignCheck(t, public)
	check.ClaimVerifier = cosign.IntotoSubjectClaimVerifier

	attestations, _, err := cosign.VerifyImageAttestations(t.Context(), ref, check)
	if err != nil {
		t.Errorf("legacy attestations of %s: %v", ref, err)
	}

	var got []string

	for _, attestation := range attestations {
		data, err := attestation.Payload()
		if err != nil {
			t.Fatal(err)
		}

		var envelope struct{ Payload []byte }
		if err := json.Unmarshal(data, &envelope); err != nil {
			t.Fatal(err)
		}

		statement, err := attest.ParseStatement(envelope.Payload)
		if err != nil {
			t.Fatal(err)
		}

		got = append(got, statement.PredicateType)
	}

	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("legacy attestations of %s are %q", ref, got)
	}
}

// checkBundles does what cosign does with --new-bundle-format, where the library checks less than its
// command: the predicate type is the caller's to look at.
func checkBundles(t *testing.T, ref name.Digest, digest v1.Hash, public crypto.PublicKey, want []string) {
	t.Helper()

	check := cosignCheck(t, public)
	check.NewBundleFormat = true

	bundles, _, err := cosign.GetBundles(t.Context(), ref, check)
	if err != nil {
		t.Fatalf("bundles of %s: %v", ref, err)
	}

	sum, err := hex.DecodeString(digest.Hex)
	if err != nil {
		t.Fatal(err)
	}

	var got []string

	for _, bundle := range bundles {
		result, err := cosign.VerifyNewBundle(t.Context(), check, verify.WithArtifactDigest("sha256", sum), bundle)
		if err != nil {
			t.Errorf("bundle of %s: %v", ref, err)

			continue
		}

		got = append(got, result.Statement.PredicateType)
	}

	slices.Sort(got)
	slices.Sort(want)

	if !slices.Equal(got, want) {
		t.Errorf("bundles of %s are %q, want %q", ref, got, want)
	}

	if _, _, err := cosign.VerifyImageAttestations(t.Context(), ref, check); err != nil {
		t.Errorf("attestations of %s as bundles: %v", ref, err)
	}
}

// We accept what cosign's library signs, in each of its formats alone.
func TestWeVerifyWhatCosignSigns(t *testing.T) {
	t.Parallel()

	layout := open(t, filepath.Join(dist(t, nil), "talos"))
	private := buildertest.NewKey(t)
	_, trust := buildertest.Signer(t, private)

	key, err := sigs.LoadSignerVerifier(private, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}

	for format, sign := range map[attest.Format]func(context.Context, name.Digest, sigs.SignerVerifier) error{
		attest.Legacy: cosignLegacy, attest.Bundle: cosignBundle,
	} {
		for title, start := range registries {
			t.Run(string(format)+"/"+title, func(t *testing.T) {
				t.Parallel()

				host := start(t)
				repository := pushed(t, host, layout)

				for _, digest := range digests(t, layout) {
					ref, err := name.NewDigest(host + "/talos/cni-plugins@" + digest.String())
					if err != nil {
						t.Fatal(err)
					}

					if err := sign(t.Context(), ref, key); err != nil {
						t.Fatal(err)
					}
				}

				policy := buildertest.Policy(t, trust)
				if _, err := attest.Verify(t.Context(), repository, policy); !attest.IsRefusal(err) {
					t.Errorf("without attestations: %v", err)
				}

				policy.SignatureOnly = true

				report, err := attest.Verify(t.Context(), repository, policy)
				if err != nil {
					t.Fatal(err)
				}

				for _, subject := range report.Subjects {
					if !slices.Equal(subject.Signed, []attest.Format{format}) {
						t.Errorf("%s is signed as %v", subject.Digest, subject.Signed)
					}
				}
			})
		}
	}
}

// cosignLegacy does what "cosign sign --key --tlog-upload=false" does.
func cosignLegacy(_ context.Context, ref name.Digest, key sigs.SignerVerifier) error {
	claim, err := (&sigpayload.Cosign{Image: ref}).MarshalJSON()
	if err != nil {
		return err
	}

	signature, err := key.SignMessage(bytes.NewReader(claim))
	if err != nil {
		return err
	}

	layer, err := static.NewSignature(claim, base64.StdEncoding.EncodeToString(signature))
	if err != nil {
		return err
	}

	entity, err := ociremote.SignedEntity(ref)
	if err != nil {
		return err
	}

	entity, err = mutate.AttachSignatureToEntity(entity, layer)
	if err != nil {
		return err
	}

	return ociremote.WriteSignatures(ref.Repository, entity)
}

// cosignBundle does what it does with --new-bundle-format.
func cosignBundle(_ context.Context, ref name.Digest, key sigs.SignerVerifier) error {
	statement, err := attest.NewStatement("", ref.DigestStr(), types.CosignSignPredicateType, nil).Encode()
	if err != nil {
		return err
	}

	envelope, err := dsse.WrapSigner(key, types.IntotoPayloadType).SignMessage(bytes.NewReader(statement))
	if err != nil {
		return err
	}

	public, err := key.PublicKey()
	if err != nil {
		return err
	}

	text, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return err
	}

	bundle, err := cbundle.MakeNewBundle(public, nil, statement, envelope, text, nil)
	if err != nil {
		return err
	}

	return ociremote.WriteAttestationNewBundleFormat(ref, bundle, types.CosignSignPredicateType)
}
