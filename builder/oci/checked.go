package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// anySize lets a blob have whatever size it has.
const anySize = -1

// alteredError says that bytes are not those of their digest.
type alteredError string

func (e alteredError) Error() string { return string(e) }

// IsAltered reports whether an error says that something could be read and has not the bytes of its
// digest. The library that reads from registries keeps its own kinds of such errors to itself.
func IsAltered(err error) bool {
	var altered alteredError

	return errors.As(err, &altered) || err != nil &&
		(strings.Contains(err.Error(), "error verifying sha256 checksum") || strings.Contains(err.Error(), "does not match requested digest"))
}

// checkedReader passes a blob's bytes on and ends in an error, instead of io.EOF, when they are not
// those of the digest.
type checkedReader struct {
	r    io.Reader
	hash hash.Hash
	want v1.Hash
	size int64
	read int64
	// end is what every later call returns.
	end error
}

// newChecked reads a blob with the digest and, unless it is anySize, the size.
func newChecked(r io.Reader, want v1.Hash, size int64) *checkedReader {
	return &checkedReader{r: r, hash: sha256.New(), want: want, size: size}
}

func (c *checkedReader) Read(p []byte) (int, error) {
	if c.end != nil {
		return 0, c.end
	}

	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	c.read += int64(n)

	switch {
	case c.size >= 0 && c.read > c.size:
		c.end = alteredError(fmt.Sprintf("blob %s has more than its %d bytes: it was altered", c.want, c.size))
	case errors.Is(err, io.EOF):
		c.end = c.compare()
	case err != nil:
		c.end = fmt.Errorf("reading blob %s: %w", c.want, err)
	}

	return n, c.end
}

func (c *checkedReader) compare() error {
	if c.size >= 0 && c.read < c.size {
		return alteredError(fmt.Sprintf("blob %s has %d bytes instead of %d: it was altered", c.want, c.read, c.size))
	}

	if got := hex.EncodeToString(c.hash.Sum(nil)); c.want.Algorithm != "sha256" || got != c.want.Hex {
		return alteredError(fmt.Sprintf("blob %s has sha256:%s instead: it was altered", c.want, got))
	}

	return io.EOF
}

// finish reads the rest, which may have so many bytes.
func (c *checkedReader) finish(limit int64) error {
	_, err := io.CopyN(io.Discard, c, limit)

	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return fmt.Errorf("blob %s goes on for more than %d bytes after what was read of it", c.want, limit)
	default:
		return err
	}
}
