package rootfs_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/rootfs"
)

// archive is a tar archive with these headers; content is as many zeros as the header says.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()

	var out bytes.Buffer

	w := tar.NewWriter(&out)

	for _, h := range headers {
		h.Typeflag = tar.TypeReg
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}

		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// bomb is an archive whose only header claims a size that does not follow.
func bomb(t testing.TB, size int64) []byte {
	t.Helper()

	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Size: size}); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func TestReadTarLimits(t *testing.T) {
	t.Parallel()

	limits := rootfs.ReadLimits{Entries: 3, FileSize: 100, TotalSize: 150}
	file := func(size int64) tar.Header { return tar.Header{Name: "file", Size: size} }
	whole := archive(t, file(100))

	tests := map[string]struct {
		data []byte
		want string
	}{
		"within":           {archive(t, file(100), file(50), file(0)), ""},
		"nothing":          {nil, ""},
		"too many":         {archive(t, file(0), file(0), file(0), file(0)), "tar archive has more than 3 entries"},
		"too large":        {archive(t, file(101)), `tar entry "file" has 101 bytes, more than 100`},
		"too much":         {archive(t, file(100), file(51)), "tar archive unpacks to more than 150 bytes"},
		"bomb":             {bomb(t, 1<<40), `tar entry "bomb" has 1099511627776 bytes, more than 100`},
		"bomb of bombs":    {bomb(t, 1<<62), `tar entry "bomb" has 4611686018427387904 bytes, more than 100`},
		"cut in a header":  {whole[:300], "reading tar archive: unexpected EOF"},
		"cut in a content": {whole[:550], "reading tar archive: unexpected EOF"},
		"not a tar":        {bytes.Repeat([]byte("junk"), 500), "reading tar archive: archive/tar: invalid tar header"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := rootfs.ReadTar(t.Context(), bytes.NewReader(test.data), limits, func(*tar.Header, io.Reader) error { return nil })

			got := ""
			if err != nil {
				got = err.Error()
			}

			if got != test.want {
				t.Errorf("error is %q, want %q", got, test.want)
			}
		})
	}
}

func TestReadTarStops(t *testing.T) {
	t.Parallel()

	data := archive(t, tar.Header{Name: "a", Size: 10}, tar.Header{Name: "b", Size: 10})

	t.Run("at an error of visit", func(t *testing.T) {
		t.Parallel()

		seen, stop := "", errors.New("stop")

		err := rootfs.ReadTar(t.Context(), bytes.NewReader(data), rootfs.DefaultReadLimits, func(h *tar.Header, _ io.Reader) error {
			seen += h.Name

			return stop
		})
		if !errors.Is(err, stop) || seen != "a" {
			t.Errorf("error is %v after %q", err, seen)
		}
	})

	t.Run("when the context ends", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		seen := ""

		err := rootfs.ReadTar(ctx, bytes.NewReader(data), rootfs.DefaultReadLimits, func(h *tar.Header, _ io.Reader) error {
			seen += h.Name

			cancel()

			return nil
		})
		if !errors.Is(err, context.Canceled) || seen != "a" {
			t.Errorf("error is %v after %q", err, seen)
		}
	})
}

// FuzzReadTar: no archive may make more content than the limits allow reach visit.
func FuzzReadTar(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a", Size: 10}, tar.Header{Name: strings.Repeat("b", 300), Size: 100}))
	f.Add(bomb(f, 1<<40))
	f.Add(archive(f, tar.Header{Name: "p", Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.security.selinux": "x"}}))
	// A sparse file: a few bytes of archive that stand for many zeros.
	f.Add(archive(f, tar.Header{Name: "s", Size: 512, Format: tar.FormatPAX, PAXRecords: map[string]string{"VENDOR.sparse.major": "1"}}))
	f.Add(bytes.Replace(archive(f, tar.Header{Name: "s", Format: tar.FormatPAX, PAXRecords: map[string]string{
		"ABC.sparse.major": "0", "ABC.sparse.minor": "1", "ABC.sparse.size": "900000", "ABC.sparse.numblocks": "0",
	}}), []byte("ABC"), []byte("GNU"), -1))

	limits := rootfs.ReadLimits{Entries: 50, FileSize: 1 << 20, TotalSize: 4 << 20}

	f.Fuzz(func(t *testing.T, data []byte) {
		var (
			entries int
			total   int64
		)

		_ = rootfs.ReadTar(t.Context(), bytes.NewReader(data), limits, func(h *tar.Header, r io.Reader) error {
			n, err := io.Copy(io.Discard, r)
			entries++
			total += n

			if n > limits.FileSize {
				t.Errorf("%q has %d bytes", h.Name, n)
			}

			return err
		})

		if entries > limits.Entries || total > limits.TotalSize {
			t.Errorf("%d entries with %d bytes came through", entries, total)
		}
	})
}
