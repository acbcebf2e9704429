package attest

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
)

// Policy says what has to hold.
type Policy struct {
	Trust *Trust
	// Pins are the upstream releases that may be in an image; it must be one of them.
	Pins []payload.Pin
	// Inspect looks into an image, and InspectFile into an archive. What they find is compared with what
	// was attested.
	Inspect     func(ctx context.Context, image v1.Image) (Content, error)
	InspectFile func(ctx context.Context, file string) (Content, error)
	// SignatureOnly asks for signatures and nothing more.
	SignatureOnly bool
}

// Report says what was found to hold.
type Report struct {
	Name string `json:"name"`
	// Signer is the key or the identity that signed.
	Signer string `json:"signer"`
	// Pin is the attested upstream release; nil with SignatureOnly.
	Pin      *payload.Pin    `json:"pin,omitempty"`
	Subjects []SubjectReport `json:"subjects"`
	// Warnings say what is no fault here but may be one to other readers.
	Warnings []string `json:"warnings,omitempty"`
}

// SubjectReport is what holds for an index, an image or a file.
type SubjectReport struct {
	Digest   string `json:"digest"`
	Platform string `json:"platform,omitempty"`
	// Signed lists the formats in which it is signed.
	Signed []Format `json:"signed"`
	// Attested lists the predicate types of its statements.
	Attested []string `json:"attested,omitempty"`
	// Plugins is how many plugins were compared with what was attested.
	Plugins int `json:"plugins,omitempty"`
}

// Verify holds everything in a store to a policy: the root and every image must be signed and, unless
// the policy wants signatures only, attested, and hold what was attested and nothing else. An error for
// which IsRefusal holds says what is wrong; any other means that it could not be found out.
func Verify(ctx context.Context, store oci.Store, policy Policy) (*Report, error) {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	report := &Report{Name: store.Name(), Signer: policy.Trust.Name}

	images, err := listed(subjects)
	if err != nil && !policy.SignatureOnly {
		return nil, fmt.Errorf("verifying %s: %w", describe(store, subjects[0]), err)
	}

	for _, subject := range subjects {
		if err := policy.verify(ctx, store, subject, images, report); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", describe(store, subject), err)
		}
	}

	return report, nil
}

// listed returns the images by platform. An index that lists anything besides is refused: nodes would look
// at that, too.
func listed(subjects []oci.Subject) (map[string]string, error) {
	images := make(map[string]string)

	for _, subject := range subjects {
		if subject.Image == nil {
			continue
		}

		digest := subject.Descriptor.Digest.String()
		if other, twice := images[platform(subject)]; twice {
			return nil, refuse("it lists two images for %s: %s and %s", platform(subject), other, digest)
		}

		images[platform(subject)] = digest
	}

	if subjects[0].Index == nil {
		return images, nil
	}

	index, err := subjects[0].Index.IndexManifest()
	if err != nil {
		return nil, err
	}

	for _, descriptor := range index.Manifests {
		if !descriptor.MediaType.IsImage() {
			return nil, refuse("it lists something that is no image: %s (%s)", descriptor.Digest, descriptor.MediaType)
		}
	}

	return images, nil
}

// describe names a subject in messages.
func describe(store oci.Store, subject oci.Subject) string {
	if p := platform(subject); p != "" {
		return fmt.Sprintf("%s: image %s for %s", store.Name(), subject.Descriptor.Digest, p)
	}

	if subject.Index != nil {
		return fmt.Sprintf("%s: index %s", store.Name(), subject.Descriptor.Digest)
	}

	return fmt.Sprintf("%s: image %s", store.Name(), subject.Descriptor.Digest)
}

func (p Policy) verify(ctx context.Context, store oci.Store, subject oci.Subject, images map[string]string, report *Report) error {
	there, err := look(ctx, store, subject.Descriptor.Digest, p.Trust)
	if err != nil {
		return err
	}

	if err := there.mustBeSigned(p.Trust); err != nil {
		return err
	}

	report.Warnings = append(report.Warnings, there.warnings(p.Trust)...)
	entry := SubjectReport{Digest: subject.Descriptor.Digest.String(), Platform: platform(subject), Signed: there.signed}

	if !p.SignatureOnly {
		held := held{images: images}

		if subject.Image != nil {
			if held.content, err = p.inspect(ctx, subject); err != nil {
				return err
			}
		}

		if err := p.attested(there.statements, held, report, &entry); err != nil {
			return err
		}
	}

	report.Subjects = append(report.Subjects, entry)

	return nil
}

func (p Policy) inspect(ctx context.Context, subject oci.Subject) (*Content, error) {
	content, err := p.Inspect(ctx, subject.Image)
	if err != nil {
		return nil, err
	}

	if platform := subject.Descriptor.Platform; platform != nil && platform.Architecture != content.Arch {
		return nil, refuse("the index lists it for %s, and it is for %s", platform.Architecture, content.Arch)
	}

	return &content, nil
}

// mustBeSigned says why a subject does not count as signed.
func (f *found) mustBeSigned(trust *Trust) error {
	switch {
	case f.refused != nil:
		return f.refused
	case len(f.signed) > 0:
		return nil
	case len(f.others) > 0:
		return refuse("it is not signed by %s: %s", trust.Name, f.others[0])
	default:
		return refuse("it is not signed")
	}
}

// warnings tells what other readers may stumble over.
func (f *found) warnings(trust *Trust) []string {
	var warnings []string

	for _, other := range f.others {
		warnings = append(warnings, fmt.Sprintf("%s: not by %s: %s", f.subject, trust.Name, other))
	}

	switch {
	case f.bundles > 0 && !slices.Contains(f.signed, Bundle):
		warnings = append(warnings, fmt.Sprintf("%s: signed in the older format only, while its attestations are bundles", f.subject))
	case !slices.Contains(f.signed, Legacy):
		warnings = append(warnings, fmt.Sprintf("%s: signed as bundle only: Image Factory's copy script and older cosign do not see it", f.subject))
	}

	return warnings
}

// held is what was found to be in a subject: the images of an index, or the content of anything else.
type held struct {
	images  map[string]string
	content *Content
}

// attested checks what the trusted statements say about a subject. An index is attested by its
// provenance, which lists its images; anything else also by an SBOM.
func (p Policy) attested(statements []attested, held held, report *Report, entry *SubjectReport) error {
	want := []string{Provenance}
	if held.content != nil {
		want = append(want, SPDX)
		entry.Plugins = len(held.content.Plugins)
	}

	for _, s := range statements {
		if !slices.Contains(entry.Attested, s.PredicateType) {
			entry.Attested = append(entry.Attested, s.PredicateType)
		}
	}

	slices.Sort(entry.Attested)

	for _, predicateType := range want {
		if !slices.Contains(entry.Attested, predicateType) {
			return refuse("there is no attestation %s by %s", predicateType, p.Trust.Name)
		}
	}

	for _, s := range statements {
		var err error

		switch {
		case s.PredicateType == Provenance:
			err = p.provenance(s.Statement, held, report)
		case s.PredicateType == SPDX && held.content != nil:
			err = sbomAgrees(s.Statement, *held.content)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (p Policy) provenance(s Statement, held held, report *Report) error {
	stated, err := p.known(s, report)
	if err != nil {
		return err
	}

	if held.content != nil {
		return stated.agrees(*held.content)
	}

	images, err := stated.dependencies(kindImage)
	if err != nil {
		return refuse("%v", err)
	}

	return sameFiles("image", images, held.images)
}

// known decodes a provenance statement, whose pin must be one of the policy's.
func (p Policy) known(s Statement, report *Report) (provenance, error) {
	stated, err := parseProvenance(s)
	if err != nil {
		return provenance{}, refuse("%v", err)
	}

	pin := stated.BuildDefinition.InternalParameters.Pin
	if !slices.Contains(p.Pins, pin) {
		return provenance{}, refuse("it is attested to be made from pin %s (%s), which is none of %s", pin.Version, pin.Sum, describePins(p.Pins))
	}

	if stated.BuildDefinition.ExternalParameters.Unpinned {
		return provenance{}, refuse("it is attested to hold plugins that are not tied to the sums of pin %s", pin.Version)
	}

	report.Pin = &pin

	return stated, nil
}
