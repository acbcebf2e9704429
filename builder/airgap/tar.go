package airgap

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// member is one file of a bundle.
type member struct {
	name string
	size int64
	// hex is the SHA-256 of the content.
	hex  string
	open func() (io.ReadCloser, error)
}

// bytesMember returns the member that consists of these bytes.
func bytesMember(name string, data []byte) member {
	return member{name, int64(len(data)), hexSum(data), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// fileMember hashes a file.
func fileMember(ctx context.Context, name, path string) (member, error) {
	// A FIFO would block the open.
	info, err := os.Lstat(path)
	if err != nil {
		return member{}, err
	}

	if !info.Mode().IsRegular() {
		return member{}, fmt.Errorf("%s is not a regular file", path)
	}

	file, err := os.Open(path)
	if err != nil {
		return member{}, err
	}
	defer file.Close()

	hash := sha256.New()

	size, err := io.Copy(hash, contextReader{ctx, file})
	if err != nil {
		return member{}, err
	}

	return member{name, size, hex.EncodeToString(hash.Sum(nil)), func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

func hexSum(data []byte) string {
	s := sha256.Sum256(data)

	return hex.EncodeToString(s[:])
}

// header has nothing that the name, the size and the time do not say.
func header(name string, size int64, modified time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: modified.UTC(), Format: tar.FormatPAX}
}

// writeTar writes the members, sorted by name; the same members always give the same bytes. There are
// no entries for directories.
func writeTar(ctx context.Context, w io.Writer, members []member, modified time.Time) error {
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })

	archive := tar.NewWriter(w)

	for _, m := range members {
		if err := archive.WriteHeader(header(m.name, m.size, modified)); err != nil {
			return fmt.Errorf("writing %s: %w", m.name, err)
		}

		if err := m.copyTo(ctx, archive); err != nil {
			return fmt.Errorf("writing %s: %w", m.name, err)
		}
	}

	return archive.Close()
}

// copyTo writes the content, which must be what it was when it was hashed.
func (m member) copyTo(ctx context.Context, w io.Writer) error {
	r, err := m.open()
	if err != nil {
		return err
	}
	defer r.Close()

	hash := sha256.New()

	if _, err := io.Copy(io.MultiWriter(w, hash), contextReader{ctx, r}); err != nil && !errors.Is(err, tar.ErrWriteTooLong) {
		return err
	}

	if got := hex.EncodeToString(hash.Sum(nil)); got != m.hex {
		return fmt.Errorf("it has sha256:%s instead of sha256:%s: it was altered", got, m.hex)
	}

	return nil
}

// contextReader stops reading when the context is done.
type contextReader struct {
	ctx context.Context //nolint:containedctx // io.Reader has no parameter for it
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}

	return c.r.Read(p)
}
