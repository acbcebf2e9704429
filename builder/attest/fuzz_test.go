package attest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	sigs "github.com/sigstore/sigstore/pkg/signature"
)

func fuzzSigner(f *testing.F) *Signer {
	f.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}

	signer, err := sigs.LoadSigner(key, crypto.SHA256)
	if err != nil {
		f.Fatal(err)
	}

	return &Signer{signer: signer, public: key.Public()}
}

const fuzzStatement = `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"` +
	`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}],"predicateType":"https://slsa.dev/provenance/v1",` +
	`"predicate":{"buildDefinition":{"buildType":"https://github.com/cnibake/cnibake/build/v1","resolvedDependencies":[{"name":"b","annotations":{"kind":"plugin"}}]}}}`

// FuzzStatement: whatever a statement says, encoding what was read gives the same again.
func FuzzStatement(f *testing.F) {
	f.Add([]byte(fuzzStatement))
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v0.1","subject":[{}],"predicateType":"https://spdx.dev/Document","predicate":"text"}`))

	f.Fuzz(func(t *testing.T, data []byte) {
		statement, err := parseStatement(data)
		if err != nil {
			return
		}

		text, err := statement.Encode()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}

		again, err := parseStatement(text)
		if err != nil || again.subjects() != statement.subjects() || again.PredicateType != statement.PredicateType {
			t.Fatalf("%q became %q: %v", data, text, err)
		}

		content := Content{Plugins: map[string]string{"b": "sha256:"}}
		_ = sbomAgrees(statement, content)

		if stated, err := parseProvenance(statement); err == nil {
			_ = stated.agrees(content)
		}
	})
}

// FuzzBundle: nothing that is not the signer's own bundle holds.
func FuzzBundle(f *testing.F) {
	signer := fuzzSigner(f)

	signed, err := signer.statement(f.Context(), []byte(fuzzStatement))
	if err != nil {
		f.Fatal(err)
	}

	trust, err := trustKey(fuzzSigner(f).public)
	if err != nil {
		f.Fatal(err)
	}

	f.Add(signed.bundle)
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","messageSignature":{"messageDigest":{"algorithm":"SHA2_256"}},"verificationMaterial":{"publicKey":{}}}`))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle+json;version=0.1","dsseEnvelope":{},"verificationMaterial":{"x509CertificateChain":{"certificates":[{"rawBytes":"AAAA"}]},"tlogEntries":[{}]}}`))

	f.Fuzz(func(t *testing.T, data []byte) {
		there := &found{subject: v1.Hash{Algorithm: "sha256", Hex: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}
		there.addBundle(context.Background(), piece{name: "bundle", data: data}, trust)

		if len(there.statements) > 0 || len(there.signed) > 0 {
			t.Fatalf("%q holds", data)
		}
	})
}

// FuzzLegacy: nothing under a legacy tag that is not the signer's own holds.
func FuzzLegacy(f *testing.F) {
	signer := fuzzSigner(f)

	envelope, err := signer.envelope(f.Context(), []byte(fuzzStatement))
	if err != nil {
		f.Fatal(err)
	}

	trust, err := trustKey(fuzzSigner(f).public)
	if err != nil {
		f.Fatal(err)
	}

	f.Add(envelope, "", "")
	f.Add([]byte(`{"critical":{"image":{"docker-manifest-digest":"sha256:00"},"type":"cosign container image signature"}}`), "MEUCIQ==", "-----BEGIN CERTIFICATE-----\n")
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{}]}`), "AAAA", "{}")

	f.Fuzz(func(t *testing.T, data []byte, signature, other string) {
		annotations := map[string]string{
			"dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/certificate": other,
			"dev.sigstore.cosign/chain": other, "dev.sigstore.cosign/bundle": other, "dev.sigstore.cosign/rfc3161timestamp": other,
		}

		p := piece{name: "piece", data: data, descriptor: v1.Descriptor{MediaType: types.OCILayer, Annotations: annotations}}
		there := &found{}

		there.addSignature(context.Background(), p, trust)
		there.addAttestation(context.Background(), p, trust)

		if len(there.statements) > 0 || len(there.signed) > 0 {
			t.Fatalf("%q holds", data)
		}
	})
}

// FuzzKey: a private or public key is one or is not.
func FuzzKey(f *testing.F) {
	f.Add([]byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjozMjc2OCwiciI6OCwicCI6MX0=\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"))

	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = LoadKey(data, func() ([]byte, error) { return nil, nil })
		_, _ = TrustKey(data)
	})
}
