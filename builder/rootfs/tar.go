package rootfs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// xattrRecord is the prefix under which GNU tar, libarchive and container runtimes keep an
// extended attribute in a PAX header.
const xattrRecord = "SCHILY.xattr."

// WriteTar writes the tree as a tar archive in which every entry belongs to 0:0, carries no user
// names and has the one modification time. The same tree and time always give the same bytes.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer, modified time.Time) error {
	archive := tar.NewWriter(w)

	for _, entry := range t.Entries() {
		if err := ctx.Err(); err != nil {
			return err
		}

		if err := archive.WriteHeader(header(entry, modified)); err != nil {
			return fmt.Errorf("writing %s: %w", entry.Path, err)
		}

		if entry.Dir {
			continue
		}

		if err := copyContent(archive, entry.Content); err != nil {
			return fmt.Errorf("writing %s: %w", entry.Path, err)
		}
	}

	return archive.Close()
}

// Fingerprint identifies the tar archive that WriteTar would write, without reading any content.
func (t *Tree) Fingerprint(modified time.Time) string {
	hash := sha256.New()
	encoder := json.NewEncoder(hash)

	for _, entry := range t.Entries() {
		// Maps are encoded with sorted keys.
		if err := encoder.Encode([]any{header(entry, modified), entry.Content.Digest}); err != nil {
			panic(err) // every field is plain data
		}
	}

	return hex.EncodeToString(hash.Sum(nil))
}

// header fills in an allow-list of fields: whatever the file system says beyond it stays out.
func header(entry Entry, modified time.Time) *tar.Header {
	h := &tar.Header{
		Name:    entry.Path,
		Mode:    int64(entry.Mode.Perm()),
		ModTime: modified.UTC(),
		Format:  tar.FormatPAX,
	}

	if entry.Dir {
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	} else {
		h.Typeflag = tar.TypeReg
		h.Size = entry.Content.Size
	}

	for name, value := range entry.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}

		h.PAXRecords[xattrRecord+name] = value
	}

	return h
}

func copyContent(w io.Writer, content Content) error {
	r, err := content.open()
	if err != nil {
		return err
	}
	defer r.Close()

	// A digest that no longer fits would also go into the cache, under the key of the right one.
	hash := sha256.New()

	n, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(r, content.Size))
	if err != nil {
		return err
	}

	// One byte more than expected shows a file that has grown.
	more, err := io.CopyN(io.Discard, r, 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	if n+more != content.Size {
		return fmt.Errorf("the file no longer has %d bytes: it changed during the build", content.Size)
	}

	if content.Digest != "" && content.Digest != "sha256:"+hex.EncodeToString(hash.Sum(nil)) {
		return errors.New("the file has another content than before: it changed during the build")
	}

	return nil
}

// ReadLimits bound what reading an untrusted archive may cost.
type ReadLimits struct {
	// Entries is the largest number of entries.
	Entries int
	// FileSize and TotalSize are in bytes of content.
	FileSize, TotalSize int64
}

// DefaultReadLimits are far above what any artifact of ours needs.
var DefaultReadLimits = ReadLimits{Entries: 100_000, FileSize: 1 << 30, TotalSize: 4 << 30}

// ReadTar calls visit for every entry of an untrusted tar archive, in order. It fails on an archive
// that goes beyond the limits or is cut short. What visit does not read is skipped.
func ReadTar(ctx context.Context, r io.Reader, limits ReadLimits, visit func(*tar.Header, io.Reader) error) error {
	archive := tar.NewReader(r)

	var total int64

	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}

		h, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // tar returns it bare
			return nil
		}

		if err != nil {
			return fmt.Errorf("reading tar archive: %w", err)
		}

		total += h.Size

		switch {
		case n >= limits.Entries:
			return fmt.Errorf("tar archive has more than %d entries", limits.Entries)
		case h.Size > limits.FileSize:
			return fmt.Errorf("tar entry %q has %d bytes, more than %d", h.Name, h.Size, limits.FileSize)
		case total > limits.TotalSize:
			return fmt.Errorf("tar archive unpacks to more than %d bytes", limits.TotalSize)
		}

		if err := visit(h, archive); err != nil {
			return err
		}
	}
}
