package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
)

// Digester computes a digest in the form manifests use while bytes pass through it.
type Digester struct {
	hash hash.Hash
	size int64
}

// NewDigester returns a Digester that has seen nothing.
func NewDigester() *Digester {
	return &Digester{hash: sha256.New()}
}

// Write adds bytes; it never fails.
func (d *Digester) Write(p []byte) (int, error) {
	d.size += int64(len(p))

	return d.hash.Write(p)
}

// Digest returns "sha256:" and the sum of what was written, in hexadecimal.
func (d *Digester) Digest() string {
	return "sha256:" + hex.EncodeToString(d.hash.Sum(nil))
}

// Size returns the number of bytes written.
func (d *Digester) Size() int64 {
	return d.size
}

// DigestFile returns the digest and the size in bytes of a file.
func DigestFile(name string) (digest string, size int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()

	d := NewDigester()
	if _, err := io.Copy(d, file); err != nil {
		return "", 0, err
	}

	return d.Digest(), d.Size(), nil
}
