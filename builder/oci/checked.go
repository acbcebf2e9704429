package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// checkedReader hashes what is read through it.
type checkedReader struct {
	r    io.Reader
	hash hash.Hash
}

func newChecked(r io.Reader) *checkedReader {
	c := &checkedReader{hash: sha256.New()}
	c.r = io.TeeReader(r, c.hash)

	return c
}

func (c *checkedReader) Read(p []byte) (int, error) { return c.r.Read(p) }

// finish reads the rest and compares the digest.
func (c *checkedReader) finish(want v1.Hash) error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return fmt.Errorf("reading layer %s: %w", want, err)
	}

	if got := hex.EncodeToString(c.hash.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("layer %s has sha256:%s instead: it was altered", want, got)
	}

	return nil
}

// checkBlob compares the digest of what read returns.
func checkBlob(read func() ([]byte, error), want v1.Hash) error {
	data, err := read()
	if err != nil {
		return fmt.Errorf("reading blob %s: %w", want, err)
	}

	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("blob %s has sha256:%s instead: it was altered", want, got)
	}

	return nil
}
