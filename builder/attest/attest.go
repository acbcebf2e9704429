package attest

import (
	"context"
	"fmt"
	"slices"

	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/cosign/v2/pkg/types"

	"github.com/cnibake/cnibake/builder/oci"
)

// Attest signs statements and attaches each to the subjects of the store that it is about, in both
// formats. What is attached already is kept; in the older format, an earlier statement of the same
// signer and type is replaced.
func Attest(ctx context.Context, store oci.Store, signer *Signer, statements []Statement) ([]Done, error) {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	about := func(s Statement) bool {
		return slices.ContainsFunc(subjects, func(subject oci.Subject) bool { return s.About(subject.Descriptor.Digest) })
	}
	if !slices.ContainsFunc(statements, about) {
		return nil, fmt.Errorf("none of the statements is about %s in %s: give those that were made by the same build", subjects[0].Descriptor.Digest, store.Name())
	}

	return attach(ctx, store, signer, func(subject oci.Subject, there *found) ([]oci.Attachment, Done, error) {
		done := Done{Added: []Format{}}

		var attachments []oci.Attachment

		for _, statement := range statements {
			if !statement.About(subject.Descriptor.Digest) {
				continue
			}

			done.Statements = append(done.Statements, statement.PredicateType)

			text, err := statement.Encode()
			if err != nil {
				return nil, done, err
			}

			hasBundle, hasLegacy := there.has(Bundle, text), there.has(Legacy, text)
			if hasBundle && hasLegacy {
				continue
			}

			signed, err := signer.statement(ctx, text)
			if err != nil {
				return nil, done, err
			}

			if !hasBundle {
				attachment, err := referrer(subject.Descriptor, signed.bundle, statement.PredicateType)
				if err != nil {
					return nil, done, err
				}

				attachments = append(attachments, attachment)
				done.add(Bundle)
			}

			if !hasLegacy {
				if err := signer.addLegacy(there, statement, signed); err != nil {
					return nil, done, err
				}

				done.add(Legacy)
			}
		}

		if slices.Contains(done.Added, Legacy) {
			attachment, err := legacy(subject.Descriptor.Digest, "att", there.attestations)
			if err != nil {
				return nil, done, err
			}

			attachments = append(attachments, attachment)
		}

		return attachments, done, nil
	})
}

// addLegacy puts an envelope where an earlier one of the same type by the same signer is, or else after
// all others.
func (s *Signer) addLegacy(there *found, statement Statement, signed signedStatement) error {
	options, err := s.legacyOptions(signed.entry)
	if err != nil {
		return err
	}

	// The annotations come first: the other options add to them.
	options = append([]static.Option{
		static.WithLayerMediaType(types.DssePayloadType),
		static.WithAnnotations(map[string]string{"predicateType": statement.PredicateType}),
	}, options...)

	attestation, err := static.NewAttestation(signed.envelope, options...)
	if err != nil {
		return err
	}

	place := slices.IndexFunc(there.statements, func(a attested) bool {
		return a.format == Legacy && a.PredicateType == statement.PredicateType
	})
	if place < 0 {
		there.attestations = append(there.attestations, attestation)

		return nil
	}

	there.attestations[there.statements[place].place] = attestation
	// The next statement of this type is another one.
	there.statements = slices.Delete(there.statements, place, place+1)

	return nil
}
