package attest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	cosignoci "github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/cnibake/cnibake/builder/oci"
)

// Format is a way in which signatures and attestations are attached.
type Format string

// Formats. Talos nodes read bundles, and signatures in tags only where there are none; Image Factory's
// copy script and older cosign read tags alone.
const (
	Legacy Format = "legacy"
	Bundle Format = "bundle"
)

// found is what is attached to one subject.
type found struct {
	subject v1.Hash
	// signed lists the formats in which the subject is signed by whom we trust.
	signed []Format
	// statements are those of whom we trust, about this subject.
	statements []attested
	// signatures and attestations are all under the legacy tags, also those of others.
	signatures, attestations []cosignoci.Signature
	// bundles counts the bundles that hold for whom we trust.
	bundles int
	// others says what is attached and does not hold for whom we trust: mostly other people's.
	others []string
	// refused says what claims to be by whom we trust and does not hold, or was moved here from elsewhere.
	refused error
}

// attested is a statement and where it is.
type attested struct {
	Statement
	format Format
	text   []byte
	// place is the index in found.attestations of a legacy one.
	place int
}

// look reads everything that is attached to a subject. Without trust only the legacy tags are of interest.
func look(ctx context.Context, store oci.Store, subject v1.Hash, trust *Trust) (*found, error) {
	attachments, err := store.Attachments(ctx, subject)
	if err != nil {
		return nil, err
	}

	f := &found{subject: subject}

	anything := func(string) bool { return true }

	for _, attachment := range attachments {
		// What else people attach, and how large it is, is not looked at.
		add, wanted := f.addBundle, isBundle

		switch attachment.Tag {
		case oci.LegacyTag(subject, "sig"):
			add, wanted = f.addSignature, anything
		case oci.LegacyTag(subject, "att"):
			add, wanted = f.addAttestation, anything
		}

		all, err := pieces(attachment, wanted)
		if err != nil {
			return nil, err
		}

		for _, p := range all {
			add(ctx, p, trust)
		}
	}

	return f, nil
}

func (f *found) other(p piece, what string, err error) {
	f.others = append(f.others, fmt.Sprintf("%s in %s: %v", what, p.name, err))
}

// refuse keeps the first reason.
func (f *found) refuse(p piece, format string, args ...any) {
	if f.refused == nil {
		f.refused = refuse("%s, attached to %s, %s", p.name, f.subject, fmt.Sprintf(format, args...))
	}
}

func (f *found) hold(format Format) {
	if !slices.Contains(f.signed, format) {
		f.signed = append(f.signed, format)
	}
}

func (f *found) addSignature(ctx context.Context, p piece, trust *Trust) {
	signature := p.signature()
	f.signatures = append(f.signatures, signature)

	if trust == nil {
		return
	}

	if err := trust.legacySignature(ctx, signature); err != nil {
		f.other(p, "signature", err)

		return
	}

	var claim payload.SimpleContainerImage
	if err := json.Unmarshal(p.data, &claim); err != nil {
		f.refuse(p, "is a signature of something else: %v", err)

		return
	}

	if about := claim.Critical.Image.DockerManifestDigest; about != f.subject.String() || claim.Critical.Type != payload.CosignSignatureType {
		f.refuse(p, "is a signature of %q %s", claim.Critical.Type, about)

		return
	}

	f.hold(Legacy)
}

func (f *found) addAttestation(ctx context.Context, p piece, trust *Trust) {
	attestation := p.signature()
	f.attestations = append(f.attestations, attestation)

	if trust == nil {
		return
	}

	if err := trust.legacyAttestation(ctx, attestation); err != nil {
		f.other(p, "attestation", err)

		return
	}

	statement, text, err := envelopeStatement(p.data)

	switch {
	case err != nil:
		f.refuse(p, "is malformed: %v", err)
	case !statement.About(f.subject):
		f.refuse(p, "is an attestation about %s", statement.subjects())
	default:
		f.statements = append(f.statements, attested{
			Statement: statement, text: text, format: Legacy, place: len(f.attestations) - 1,
		})
	}
}

// envelopeStatement returns the statement in a DSSE envelope, and its text.
func envelopeStatement(data []byte) (Statement, []byte, error) {
	var envelope dsse.Envelope
	if err := json.Unmarshal(data, &envelope); err != nil {
		return Statement{}, nil, fmt.Errorf("decoding envelope: %w", err)
	}

	text, err := envelope.DecodeB64Payload()
	if err != nil {
		return Statement{}, nil, fmt.Errorf("decoding envelope: %w", err)
	}

	statement, err := parseStatement(text)

	return statement, text, err
}

func (f *found) addBundle(ctx context.Context, p piece, trust *Trust) {
	if trust == nil {
		return
	}

	bundle, err := parseBundle(p.data)
	if err != nil {
		f.other(p, "bundle", err)

		return
	}

	if err := trust.bundle(ctx, bundle, verify.WithoutArtifactUnsafe()); err != nil {
		// Talos nodes refuse an image over such a bundle, whatever else is attached.
		if trust.claims(bundle) {
			f.refuse(p, "is a bundle that says it is by %s and is not valid: %v", trust.Name, err)
		} else {
			f.other(p, "bundle", err)
		}

		return
	}

	statement, err := bundleStatement(bundle)

	switch {
	case err != nil:
		f.refuse(p, "is malformed: %v", err)
	case !statement.About(f.subject):
		f.refuse(p, "is a bundle about %s", statement.subjects())
	case statement.PredicateType == signature:
		f.bundles++
		f.hold(Bundle)
	default:
		f.bundles++
		f.statements = append(f.statements, attested{
			Statement: statement, text: bundle.GetDsseEnvelope().GetPayload(), format: Bundle,
		})
	}
}

// has reports whether the same statement is there already.
func (f *found) has(format Format, text []byte) bool {
	return slices.ContainsFunc(f.statements, func(a attested) bool { return a.format == format && bytes.Equal(a.text, text) })
}
