package attest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	cbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/cnibake/cnibake/builder/oci"
)

// Done says what signing or attesting did to one subject.
type Done struct {
	Digest   string `json:"digest"`
	Platform string `json:"platform,omitempty"`
	// Added lists the formats that were written; what was there already is kept.
	Added []Format `json:"added"`
	// Statements lists the predicate types that were attached.
	Statements []string `json:"statements,omitempty"`
}

func (d *Done) add(format Format) {
	if !slices.Contains(d.Added, format) {
		d.Added = append(d.Added, format)
	}
}

// Sign signs everything in a store, the root and each image, in both formats. Signatures that are
// there stay, and what the signer has signed already is not signed again. repository is what the
// older format says the image is called; it is empty for a layout.
func Sign(ctx context.Context, store oci.Store, signer *Signer, repository string) ([]Done, error) {
	return attach(ctx, store, signer, func(subject oci.Subject, there *found) ([]oci.Attachment, Done, error) {
		done := Done{Added: []Format{}}

		var attachments []oci.Attachment

		if !slices.Contains(there.signed, Legacy) {
			attachment, err := signer.legacySignature(ctx, subject.Descriptor.Digest, repository, there)
			if err != nil {
				return nil, done, err
			}

			attachments = append(attachments, attachment)
			done.add(Legacy)
		}

		if !slices.Contains(there.signed, Bundle) {
			statement, err := NewStatement("", subject.Descriptor.Digest.String(), signature, nil).Encode()
			if err != nil {
				return nil, done, err
			}

			signed, err := signer.statement(ctx, statement)
			if err != nil {
				return nil, done, err
			}

			attachment, err := referrer(subject.Descriptor, signed.bundle, signature)
			if err != nil {
				return nil, done, err
			}

			attachments = append(attachments, attachment)
			done.add(Bundle)
		}

		return attachments, done, nil
	})
}

// attach asks for the attachments of every subject and stores them all at once, those of the root
// last: whoever finds the root signed finds its images signed.
func attach(ctx context.Context, store oci.Store, signer *Signer,
	each func(subject oci.Subject, there *found) ([]oci.Attachment, Done, error),
) ([]Done, error) {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	trust, err := signer.Trust()
	if err != nil {
		return nil, err
	}

	// Others' signatures that come in between would be lost from the tags.
	if layout, ok := store.(*oci.Layout); ok {
		unlock, err := layout.Lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
	}

	var (
		all  []oci.Attachment
		done []Done
	)

	for _, subject := range slices.Backward(subjects) {
		there, err := look(ctx, store, subject.Descriptor.Digest, trust)
		if err != nil {
			return nil, err
		}

		attachments, one, err := each(subject, there)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", subject.Descriptor.Digest, store.Name(), err)
		}

		one.Digest, one.Platform = subject.Descriptor.Digest.String(), platform(subject)
		all, done = append(all, attachments...), append(done, one)
	}

	slices.Reverse(done)

	if len(all) == 0 {
		return done, nil
	}

	return done, store.Attach(ctx, all...)
}

func platform(subject oci.Subject) string {
	if subject.Index != nil || subject.Descriptor.Platform == nil {
		return ""
	}

	return subject.Descriptor.Platform.String()
}

// legacySignature returns the tag's new content: what is there, and one more signature.
func (s *Signer) legacySignature(ctx context.Context, digest v1.Hash, repository string, there *found) (oci.Attachment, error) {
	claim, err := json.Marshal(payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: repository},
		Image:    payload.Image{DockerManifestDigest: digest.String()},
		Type:     payload.CosignSignatureType,
	}})
	if err != nil {
		return oci.Attachment{}, err
	}

	signed, err := s.sign(ctx, claim)
	if err != nil {
		return oci.Attachment{}, err
	}

	identity, err := s.pem()
	if err != nil {
		return oci.Attachment{}, err
	}

	digester := sha256.New()
	digester.Write(claim)

	entry, err := s.log.signature(ctx, signed, digester, identity)
	if err != nil {
		return oci.Attachment{}, err
	}

	options, err := s.legacyOptions(entry)
	if err != nil {
		return oci.Attachment{}, err
	}

	one, err := static.NewSignature(claim, base64.StdEncoding.EncodeToString(signed), options...)
	if err != nil {
		return oci.Attachment{}, err
	}

	return legacy(digest, "sig", append(slices.Clone(there.signatures), one))
}

// legacyOptions are what goes beside a signature or an attestation in the older format.
func (s *Signer) legacyOptions(entry *models.LogEntryAnon) ([]static.Option, error) {
	var options []static.Option

	if s.certificate != nil {
		certificate, err := s.pem()
		if err != nil {
			return nil, err
		}

		options = append(options, static.WithCertChain(certificate, nil))
	}

	if entry != nil {
		options = append(options, static.WithBundle(cbundle.EntryToBundle(entry)))
	}

	return options, nil
}
