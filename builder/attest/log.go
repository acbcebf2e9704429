package attest

import (
	"context"
	"fmt"
	"hash"

	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/rekor/pkg/client"
	rekor "github.com/sigstore/rekor/pkg/generated/client"
	"github.com/sigstore/rekor/pkg/generated/models"
)

// transparencyLog makes signatures public. A nil one keeps them private.
type transparencyLog struct {
	url    string
	client *rekor.Rekor
}

func newTransparencyLog(url string) (*transparencyLog, error) {
	c, err := client.GetRekorClient(url, client.WithUserAgent("cnibake"), client.WithRetryCount(3))
	if err != nil {
		return nil, fmt.Errorf("transparency log %s: %w", url, err)
	}

	return &transparencyLog{url, c}, nil
}

// envelope records a DSSE envelope. identity is a certificate or key in PEM.
func (l *transparencyLog) envelope(ctx context.Context, envelope, identity []byte) (*models.LogEntryAnon, error) {
	if l == nil {
		return nil, nil // no log, no entry
	}

	entry, err := cosign.TLogUploadDSSEEnvelope(ctx, l.client, envelope, identity)
	if err != nil {
		return nil, fmt.Errorf("recording the signature in %s: %w", l.url, err)
	}

	return entry, nil
}

// signature records a signature over data that has this SHA-256 sum.
func (l *transparencyLog) signature(ctx context.Context, signature []byte, sum hash.Hash, identity []byte) (*models.LogEntryAnon, error) {
	if l == nil {
		return nil, nil // no log, no entry
	}

	entry, err := cosign.TLogUpload(ctx, l.client, signature, sum, identity)
	if err != nil {
		return nil, fmt.Errorf("recording the signature in %s: %w", l.url, err)
	}

	return entry, nil
}
