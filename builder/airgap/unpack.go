package airgap

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cnibake/cnibake/builder/sums"
)

// Limits of what is read from a bundle, far above what any build of ours makes.
const (
	maxMembers    = 10_000
	maxMemberSize = 4 << 30
	maxTotalSize  = 16 << 30
)

var blobName = regexp.MustCompile(`^blobs/sha256/[0-9a-f]{64}$`)

// isText says which members are held in memory.
func isText(name string) bool {
	return slices.Contains([]string{markerName, indexName, imagesName, sums.Name, filesDir + sums.Name, filesDir + buildName}, name)
}

func isMember(name string) bool {
	file, ok := strings.CutPrefix(name, filesDir)

	return ok && fileName.MatchString(file) || blobName.MatchString(name) || isText(name)
}

// unpacked is what was read from a bundle.
type unpacked struct {
	// sums are those of the members except SHA256SUMS, as computed.
	sums []sums.Sum
	// text has the members that are held in memory.
	text map[string][]byte
	// modified is the one time in the bundle.
	modified time.Time
}

// unpack reads a bundle and writes its members below dir. A bundle is refused unless it has exactly the
// bytes that writeTar gives its members: so no byte of it is without a sum, neither in headers nor between
// them. Files need not be written to be looked at.
func unpack(ctx context.Context, r io.Reader, dir string, withoutFiles bool) (*unpacked, error) {
	for _, sub := range []string{blobsDir, filesDir} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(sub)), 0o700); err != nil {
			return nil, err
		}
	}

	u := &unpacked{text: make(map[string][]byte)}
	read, rewritten := sha256.New(), sha256.New()
	raw := io.TeeReader(contextReader{ctx, r}, read)
	archive, again := tar.NewReader(raw), tar.NewWriter(rewritten)
	last, total := "", int64(0)

	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return nil, fmt.Errorf("reading what follows %s: %w", place(last), err)
		}

		total += max(h.Size, 0)

		if err := u.accept(h, last); err != nil {
			return nil, err
		}

		if n >= maxMembers || h.Size > maxMemberSize || total > maxTotalSize {
			return nil, fmt.Errorf("%s: more or larger members than any bundle has", h.Name)
		}

		if err := again.WriteHeader(header(h.Name, h.Size, u.modified)); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}

		if !equalSums(read, rewritten) {
			return nil, fmt.Errorf("the header of %s, or what is between it and %s, was altered", h.Name, place(last))
		}

		target := filepath.Join(dir, filepath.FromSlash(h.Name))
		if withoutFiles && strings.HasPrefix(h.Name, filesDir) {
			target = ""
		}

		if err := u.take(h, io.TeeReader(archive, again), target); err != nil {
			return nil, fmt.Errorf("reading %s: %w", h.Name, err)
		}

		last = h.Name
	}

	if err := again.Close(); err != nil {
		return nil, err
	}

	// Two blocks of zeros end an archive; a reader looks no further. What follows need not have an end.
	if more, err := io.CopyN(io.Discard, raw, 1); more > 0 {
		return nil, errors.New("bytes follow the end of the archive")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}

	if !equalSums(read, rewritten) {
		return nil, fmt.Errorf("the bytes that follow %s were altered or cut short", place(last))
	}

	return u, nil
}

// place names where reading got to.
func place(last string) string {
	if last == "" {
		return "the beginning"
	}

	return last
}

func equalSums(a, b hash.Hash) bool { return bytes.Equal(a.Sum(nil), b.Sum(nil)) }

// accept decides by its header whether a member belongs here.
func (u *unpacked) accept(h *tar.Header, last string) error {
	if last == "" {
		u.modified = h.ModTime
	}

	switch {
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%q is not a regular file", h.Name)
	case !isMember(h.Name):
		return fmt.Errorf("%q is not expected", h.Name)
	case h.Name == last:
		return fmt.Errorf("%s is there twice", h.Name)
	case h.Name < last:
		return fmt.Errorf("%s is out of order: it follows %s", h.Name, last)
	default:
		return nil
	}
}

// take notes the sum of a member and writes it to the target, unless that is empty.
func (u *unpacked) take(h *tar.Header, content io.Reader, target string) (err error) {
	hash := sha256.New()
	writers := []io.Writer{hash}

	if isText(h.Name) {
		if h.Size > sums.MaxFile {
			return fmt.Errorf("it has %d bytes, more than %d", h.Size, sums.MaxFile)
		}

		var text bytes.Buffer

		writers = append(writers, &text)

		defer func() { u.text[h.Name] = text.Bytes() }()
	}

	if target != "" {
		file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()

		writers = append(writers, file)
	}

	if _, err := io.Copy(io.MultiWriter(writers...), content); err != nil {
		return err
	}

	if h.Name != sums.Name {
		u.sums = append(u.sums, sums.Sum{Hex: hex.EncodeToString(hash.Sum(nil)), Name: h.Name})
	}

	return nil
}

// check compares the members with SHA256SUMS, and blobs with their names.
func (u *unpacked) check() error {
	text, ok := u.text[sums.Name]
	if !ok {
		return fmt.Errorf("%s is missing: it is no bundle of cnibake", sums.Name)
	}

	listed, err := sums.Parse(text)
	if err != nil {
		return err
	}

	want := make(map[string]string)
	for _, s := range listed {
		want[s.Name] = s.Hex
	}

	var wrong sums.Differences

	for _, s := range u.sums {
		hex, ok := want[s.Name]
		delete(want, s.Name)

		switch {
		case !ok:
			wrong.Extra(s.Name)
		case hex != s.Hex, strings.HasPrefix(s.Name, blobsDir) && s.Name != blobsDir+s.Hex:
			wrong.Altered(s.Name)
		}
	}

	for name := range want {
		wrong.Missing(name)
	}

	if err := wrong.Err(); err != nil {
		return fmt.Errorf("%w (by %s)", err, sums.Name)
	}

	return nil
}
