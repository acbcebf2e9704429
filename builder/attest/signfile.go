package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/cnibake/cnibake/builder/oci"
)

// What lies beside a signed or attested file.
const (
	// SignatureSuffix ends the name of the sigstore bundle that signs a file.
	SignatureSuffix = ".sigstore.json"
	// StatementsSuffix ends the name of the file with signed statements: one sigstore bundle a line.
	StatementsSuffix = ".intoto.jsonl"
)

// SignFile signs the bytes of a file into FILE.sigstore.json. A signature of the same signer that holds
// is kept.
func SignFile(ctx context.Context, path string, signer *Signer) (Done, error) {
	digest, err := fileDigest(path)
	if err != nil {
		return Done{}, err
	}

	done := Done{Digest: digest.String(), Added: []Format{}}
	place := path + SignatureSuffix

	trust, err := signer.Trust()
	if err != nil {
		return done, err
	}

	switch there, err := readBundle(place); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return done, fmt.Errorf("%w: remove it to sign anew", err)
	case trust != nil && holds(ctx, path, digest, there, trust) == nil:
		return done, nil
	case messageDigest(there) == digest && !signer.claims(there):
		return done, byOther(place)
	}

	file, err := os.Open(path)
	if err != nil {
		return done, err
	}
	defer file.Close()

	bundle, err := signer.fileBundle(ctx, file)
	if err != nil {
		return done, err
	}

	done.add(Bundle)

	return done, oci.ReplaceFile(place, 0o644, bytes.NewReader(append(bundle, '\n')))
}

// byOther refuses to replace a signature that holds.
func byOther(place string) error {
	return fmt.Errorf("%s signs the file already, by somebody else: move it away to sign anew", place)
}

// CheckOthers says beforehand which of several files SignFile would refuse because somebody else has signed
// it. There is room for one signature.
func CheckOthers(signer *Signer, paths ...string) error {
	for _, path := range paths {
		place := path + SignatureSuffix

		there, err := readBundle(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return fmt.Errorf("%w: remove it to sign anew", err)
		}

		if signer.claims(there) {
			continue
		}

		digest, err := fileDigest(path)
		if err != nil {
			return err
		}

		if messageDigest(there) == digest {
			return byOther(place)
		}
	}

	return nil
}

// AttestFile signs the statements about a file into FILE.intoto.jsonl. Lines of others that are about
// the same bytes are kept.
func AttestFile(ctx context.Context, path string, signer *Signer, statements []Statement) (Done, error) {
	digest, err := fileDigest(path)
	if err != nil {
		return Done{}, err
	}

	done := Done{Digest: digest.String(), Added: []Format{}}
	place := path + StatementsSuffix

	before, err := readSmall(place)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}

	trust, err := signer.Trust()
	if err != nil {
		return done, err
	}

	var mine [][]byte

	for _, statement := range statements {
		if !statement.About(digest) {
			continue
		}

		done.Statements = append(done.Statements, statement.PredicateType)

		text, err := statement.Encode()
		if err != nil {
			return done, err
		}

		mine = append(mine, text)
	}

	if len(mine) == 0 {
		return done, fmt.Errorf("none of the statements is about %s, which is what %s has: give those that were made by the same build", digest, path)
	}

	after := keep(ctx, before, digest, trust, done.Statements, &mine)

	for _, text := range mine {
		signed, err := signer.statement(ctx, text)
		if err != nil {
			return done, err
		}

		after = append(append(after, signed.bundle...), '\n')
		done.add(Bundle)
	}

	if bytes.Equal(before, after) {
		return done, nil
	}

	return done, oci.ReplaceFile(place, 0o644, bytes.NewReader(after))
}

// keep returns the lines that stay: those about the same bytes, except for ours of the types that are
// stated anew. Of these stay the ones that say what is to be said; they are taken out of mine.
func keep(ctx context.Context, lines []byte, digest v1.Hash, trust *Trust, types []string, mine *[][]byte) []byte {
	var kept []byte

	for line := range bytes.Lines(lines) {
		bundle, err := parseBundle(line)
		if err != nil {
			continue
		}

		statement, err := bundleStatement(bundle)
		if err != nil || !statement.About(digest) {
			continue
		}

		if trust != nil && trust.claims(bundle) && slices.Contains(types, statement.PredicateType) {
			text := bundle.GetDsseEnvelope().GetPayload()

			i := slices.IndexFunc(*mine, func(other []byte) bool { return bytes.Equal(text, other) })
			if i < 0 || trust.bundle(ctx, bundle, verify.WithoutArtifactUnsafe()) != nil {
				continue
			}

			*mine = slices.Delete(*mine, i, i+1)
		}

		kept = append(kept, line...)
	}

	return kept
}
