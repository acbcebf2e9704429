package attest

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"regexp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci"
	sgbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigs "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// Trust says whose signatures are believed: those of a key, or of an identity that a certificate
// authority vouches for. It never asks the network.
type Trust struct {
	// Name says in reports who that is.
	Name  string
	check cosign.CheckOpts
	// hint is how bundles name the key; empty for an identity.
	hint string
}

// Identity is who a certificate must have been given to. Exactly one of Subject and SubjectRegexp,
// and one of Issuer and IssuerRegexp, has to be set.
type Identity struct {
	Subject, SubjectRegexp string
	Issuer, IssuerRegexp   string
}

// TrustKey believes signatures of a public key in PEM.
func TrustKey(text []byte) (*Trust, error) {
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("not a public key in PEM: %w", err)
	}

	return trustKey(public)
}

func trustKey(public crypto.PublicKey) (*Trust, error) {
	verifier, err := newVerifier(public)
	if err != nil {
		return nil, err
	}

	name, err := keyName(public)
	if err != nil {
		return nil, err
	}

	hint, err := keyHint(public)
	if err != nil {
		return nil, err
	}

	return &Trust{Name: name, hint: hint, check: cosign.CheckOpts{
		SigVerifier: verifier,
		// The library insists on some trusted root, though a key needs none.
		TrustedMaterial: &root.BaseTrustedMaterial{},
		IgnoreTlog:      true,
		IgnoreSCT:       true,
		Offline:         true,
	}}, nil
}

// TrustIdentity believes signatures by certificates for an identity. The trusted root says who may
// issue them and what else is needed: where it lists certificate logs, transparency logs or time stamp
// authorities, signatures must have been seen by one of each.
func TrustIdentity(identity Identity, trustedRoot []byte) (*Trust, error) {
	if (identity.Subject == "") == (identity.SubjectRegexp == "") || (identity.Issuer == "") == (identity.IssuerRegexp == "") {
		return nil, errors.New("an identity needs a subject and an issuer, each as it is or as a pattern")
	}

	// The library would find out at every signature anew, and call it that of somebody else.
	for _, pattern := range []string{identity.SubjectRegexp, identity.IssuerRegexp} {
		if _, err := regexp.Compile(pattern); err != nil {
			return nil, fmt.Errorf("reading identity: %w", err)
		}
	}

	trusted, err := root.NewTrustedRootFromJSON(trustedRoot)
	if err != nil {
		return nil, fmt.Errorf("reading trusted root: %w", err)
	}

	if len(trusted.FulcioCertificateAuthorities()) == 0 {
		return nil, errors.New("reading trusted root: it lists no certificate authority")
	}

	logged := len(trusted.RekorLogs()) > 0

	return &Trust{Name: identity.String(), check: cosign.CheckOpts{
		TrustedMaterial: trusted,
		Identities: []cosign.Identity{{
			Subject: identity.Subject, SubjectRegExp: identity.SubjectRegexp,
			Issuer: identity.Issuer, IssuerRegExp: identity.IssuerRegexp,
		}},
		IgnoreTlog:          !logged,
		IgnoreSCT:           len(trusted.CTLogs()) == 0,
		UseSignedTimestamps: !logged && len(trusted.TimestampingAuthorities()) > 0,
		Offline:             true,
	}}, nil
}

// String names the identity for messages.
func (i Identity) String() string {
	return fmt.Sprintf("identity %s%s of issuer %s%s", i.Subject, i.SubjectRegexp, i.Issuer, i.IssuerRegexp)
}

// legacySignature verifies a signature as the tag sha256-HEX.sig has it. What it is about is for the
// caller to compare.
func (t *Trust) legacySignature(ctx context.Context, signature oci.Signature) error {
	return guard(func() error {
		_, err := cosign.VerifyImageSignature(ctx, signature, v1.Hash{}, &t.check)

		return err
	})
}

// legacyAttestation verifies an attestation as the tag sha256-HEX.att has it. What it is about is for
// the caller to compare.
func (t *Trust) legacyAttestation(ctx context.Context, attestation oci.Signature) error {
	return guard(func() error {
		_, err := cosign.VerifyBlobAttestation(ctx, attestation, v1.Hash{}, &t.check)

		return err
	})
}

// bundle verifies a sigstore bundle against an artifact.
func (t *Trust) bundle(ctx context.Context, bundle *sgbundle.Bundle, artifact verify.ArtifactPolicyOption) error {
	return guard(func() error {
		_, err := cosign.VerifyNewBundle(ctx, &t.check, artifact, bundle)

		return err
	})
}

// claims reports whether a bundle says that it was made with the key we trust, true or not. What is said
// with a certificate is no claim of anybody's: anyone can make one of any name, and good ones expire.
func (t *Trust) claims(bundle *sgbundle.Bundle) bool {
	content, err := bundle.VerificationContent()

	return err == nil && t.hint != "" && content.PublicKey() != nil && content.PublicKey().Hint() == t.hint
}

// guard turns a crash into an error: cosign takes what the annotations of a signature say for granted
// in places, and whoever wrote them is not trusted yet.
func guard(check func() error) (err error) {
	defer func() {
		if crash := recover(); crash != nil {
			err = fmt.Errorf("malformed: %v", crash)
		}
	}()

	return check()
}

// verifiers accepts what any of several verifiers accepts.
type verifiers []sigs.Verifier

// newVerifier returns what verifies a key's signatures. Signers agree about the hash only for the
// usual keys: cosign takes SHA-256 or the hash that goes with the curve, and Ed25519 with or without.
func newVerifier(public crypto.PublicKey) (sigs.Verifier, error) {
	plain, err := sigs.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be used: %w", err)
	}

	other, err := sigs.LoadDefaultVerifier(public, options.WithED25519ph())
	if err != nil {
		return plain, nil // the first one is all there is
	}

	algorithm, err := sigs.GetDefaultAlgorithmDetails(public, options.WithED25519ph())
	if err == nil && algorithm.GetHashType() == crypto.SHA256 {
		return plain, nil
	}

	return verifiers{plain, other}, nil
}

// PublicKey returns the key.
func (v verifiers) PublicKey(opts ...sigs.PublicKeyOption) (crypto.PublicKey, error) {
	return v[0].PublicKey(opts...)
}

// VerifySignature reads the message into memory.
func (v verifiers) VerifySignature(signature, message io.Reader, opts ...sigs.VerifyOption) error {
	signed, err := io.ReadAll(signature)
	if err != nil {
		return err
	}

	data, err := io.ReadAll(message)
	if err != nil {
		return err
	}

	for _, verifier := range v {
		if err = verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(data), opts...); err == nil {
			return nil
		}
	}

	return err
}
