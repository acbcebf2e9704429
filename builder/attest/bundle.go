package attest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	cbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/types"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/rekor/pkg/generated/models"
	sgbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// bundleType is the media type of the sigstore bundles that are written here.
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// bundlePrefix begins the media types of all versions.
	bundlePrefix = "application/vnd.dev.sigstore.bundle"
)

// signedStatement is a statement in the forms in which it is attached.
type signedStatement struct {
	bundle, envelope []byte
	// entry is nil when no log was asked.
	entry *models.LogEntryAnon
}

// statement signs the text of a statement.
func (s *Signer) statement(ctx context.Context, text []byte) (signedStatement, error) {
	envelope, err := s.envelope(ctx, text)
	if err != nil {
		return signedStatement{}, err
	}

	identity, err := s.pem()
	if err != nil {
		return signedStatement{}, err
	}

	entry, err := s.log.envelope(ctx, envelope, identity)
	if err != nil {
		return signedStatement{}, err
	}

	encoded, err := cbundle.MakeNewBundle(s.public, entry, text, envelope, identity, nil)
	if err != nil {
		return signedStatement{}, fmt.Errorf("making bundle: %w", err)
	}

	bundle, err := compact(encoded)

	return signedStatement{bundle, envelope, entry}, err
}

// fileBundle returns a bundle that signs the bytes of a file.
func (s *Signer) fileBundle(ctx context.Context, content io.Reader) ([]byte, error) {
	digest := sha256.New()

	signature, err := s.signer.SignMessage(io.TeeReader(content, digest), options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}

	identity, err := s.pem()
	if err != nil {
		return nil, err
	}

	entry, err := s.log.signature(ctx, signature, digest, identity)
	if err != nil {
		return nil, err
	}

	hint := ""
	if s.certificate == nil {
		if hint, err = keyHint(s.public); err != nil {
			return nil, err
		}
	}

	bundle, err := cbundle.MakeProtobufBundle(hint, s.certificate, entry, nil)
	if err != nil {
		return nil, fmt.Errorf("making bundle: %w", err)
	}

	bundle.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: digest.Sum(nil)},
		Signature:     signature,
	}}

	encoded, err := protojson.Marshal(bundle)
	if err != nil {
		return nil, fmt.Errorf("making bundle: %w", err)
	}

	return compact(encoded)
}

// compact takes out the white space that the protobuf library puts in or not, as it likes.
func compact(encoded []byte) ([]byte, error) {
	var out bytes.Buffer
	err := json.Compact(&out, encoded)

	return out.Bytes(), err
}

// parseBundle decodes a sigstore bundle.
func parseBundle(data []byte) (*sgbundle.Bundle, error) {
	if len(data) > maxPiece {
		return nil, fmt.Errorf("bundle is larger than %d bytes", maxPiece)
	}

	bundle := &sgbundle.Bundle{}

	// Decoders of what is inside a bundle are many and not all careful.
	if err := guard(func() error { return bundle.UnmarshalJSON(data) }); err != nil {
		return nil, fmt.Errorf("decoding bundle: %w", err)
	}

	return bundle, nil
}

// bundleStatement returns the in-toto statement in a bundle. Nothing about it is verified.
func bundleStatement(bundle *sgbundle.Bundle) (Statement, error) {
	envelope := bundle.GetDsseEnvelope()
	if envelope == nil {
		return Statement{}, fmt.Errorf("bundle holds no statement")
	}

	if envelope.GetPayloadType() != types.IntotoPayloadType {
		return Statement{}, fmt.Errorf("bundle holds %q, not a statement", envelope.GetPayloadType())
	}

	return parseStatement(envelope.GetPayload())
}

// isBundle reports whether a media type is that of a sigstore bundle.
func isBundle(mediaType string) bool { return strings.HasPrefix(mediaType, bundlePrefix) }
