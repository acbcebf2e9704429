package attest

import (
	"context"

	"github.com/sigstore/sigstore-go/pkg/verify"
)

// VerifyBundle verifies who made a bundle.
func (t *Trust) VerifyBundle(ctx context.Context, data []byte) error {
	bundle, err := parseBundle(data)
	if err != nil {
		return err
	}

	return t.bundle(ctx, bundle, verify.WithoutArtifactUnsafe())
}

// BundleType is what a bundle that somebody forged has to have.
const BundleType = bundleType

// ParseStatement is for statements that were altered.
var ParseStatement = parseStatement
