package attest

import (
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	sgbundle "github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/cnibake/cnibake/builder/payload"
)

// fileDigest is the digest of a file as statements have it.
func fileDigest(path string) (v1.Hash, error) {
	digest, _, err := payload.DigestFile(path)
	if err != nil {
		return v1.Hash{}, err
	}

	return v1.NewHash(digest)
}

func readBundle(path string) (*sgbundle.Bundle, error) {
	data, err := readSmall(path)
	if err != nil {
		return nil, err
	}

	bundle, err := parseBundle(data)
	if err != nil {
		return nil, RefusedError{fmt.Errorf("%s: %w", path, err)}
	}

	return bundle, nil
}

// readSmall reads a file that is no larger than what can be attached to an image.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	// Opening anything else could block.
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}

	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, maxPiecesSize+1))
	if err != nil {
		return nil, err
	}

	if len(data) > maxPiecesSize {
		return nil, refuse("%s has more than %d bytes", path, maxPiecesSize)
	}

	return data, nil
}
