package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	sgbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// VerifyFile holds a file to a policy. An archive of plugins, which is told by its name, must be attested
// too, and hold what was attested; of any other file the signature is all there is.
func VerifyFile(ctx context.Context, path string, policy Policy) (*Report, error) {
	report := &Report{Name: path, Signer: policy.Trust.Name}

	if err := policy.verifyFile(ctx, path, report); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", path, err)
	}

	return report, nil
}

func (p Policy) verifyFile(ctx context.Context, path string, report *Report) error {
	digest, err := fileDigest(path)
	if err != nil {
		return err
	}

	bundle, err := readBundle(path + SignatureSuffix)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("it is not signed: there is no %s", path+SignatureSuffix)
	case err != nil:
		return err
	}

	if err := holds(ctx, path, digest, bundle, p.Trust); err != nil {
		return err
	}

	entry := SubjectReport{Digest: digest.String(), Signed: []Format{Bundle}}

	if !p.SignatureOnly && isArchive(path) {
		if err := p.attestedFile(ctx, path, digest, report, &entry); err != nil {
			return err
		}
	}

	report.Subjects = append(report.Subjects, entry)

	return nil
}

// isArchive tells archives, which hold plugins, from other files by their names.
func isArchive(path string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tar.zst", ".tgz"}, func(suffix string) bool { return strings.HasSuffix(path, suffix) })
}

func (p Policy) attestedFile(ctx context.Context, path string, digest v1.Hash, report *Report, entry *SubjectReport) error {
	place := path + StatementsSuffix

	lines, err := readSmall(place)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("it is not attested: there is no %s", place)
	case err != nil:
		return err
	}

	f := &found{subject: digest}
	number := 0

	for line := range bytes.Lines(lines) {
		if number++; number > maxPieces {
			return refuse("%s has more than %d lines", place, maxPieces)
		}

		f.addBundle(ctx, piece{name: fmt.Sprintf("line %d of %s", number, place), data: line}, p.Trust)
	}

	if f.refused != nil {
		return f.refused
	}

	content, err := p.InspectFile(ctx, path)
	if err != nil {
		return err
	}

	return p.attested(f.statements, held{content: &content}, report, entry)
}

// holds says why a bundle does not sign a file for whom we trust, if it does not.
func holds(ctx context.Context, path string, digest v1.Hash, bundle *sgbundle.Bundle, trust *Trust) error {
	if signed := messageDigest(bundle); signed != digest {
		return refuse("it has %s, and %s signs %s: it was altered", digest, path+SignatureSuffix, signed)
	}

	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	if err := trust.bundle(ctx, bundle, verify.WithArtifact(file)); err != nil {
		return refuse("%s does not sign it for %s: %w", path+SignatureSuffix, trust.Name, err)
	}

	return nil
}

// messageDigest is what a bundle says it signs.
func messageDigest(bundle *sgbundle.Bundle) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", bundle.GetMessageSignature().GetMessageDigest().GetDigest())}
}
