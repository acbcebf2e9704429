package airgap_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// entry is a member of a bundle that a test takes apart.
type entry struct {
	name string
	data []byte
	kind byte
}

func read(t testing.TB, bundle []byte) []entry {
	t.Helper()

	var entries []entry

	for archive := tar.NewReader(bytes.NewReader(bundle)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}

		if err != nil {
			t.Fatal(err)
		}

		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}

		entries = append(entries, entry{h.Name, data, h.Typeflag})
	}
}

// pack writes members as a bundle has them, in the given order.
func pack(t testing.TB, entries []entry) []byte {
	t.Helper()

	var out bytes.Buffer

	archive := tar.NewWriter(&out)

	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Size: int64(len(e.data)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if e.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, "/etc/passwd"
		}

		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}

		if e.kind == tar.TypeReg {
			if _, err := archive.Write(e.data); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// retimed is pack with another time at one member.
func retimed(t testing.TB, entries []entry, at int) []byte {
	t.Helper()

	whole := pack(t, entries)
	archive := bytes.NewReader(whole)
	reader := tar.NewReader(struct{ io.Reader }{archive})

	for range at + 1 {
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
	}

	// The header is the block that was read last: its time is at 136, its checksum at 148.
	header := whole[len(whole)-archive.Len()-512:][:512]
	copy(header[136:], "00000000001")

	copy(header[148:156], "        ")

	sum := 0
	for _, b := range header {
		sum += int(b)
	}

	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))

	return whole
}

// sealed writes members with sums that are right, as somebody would who has no key but knows how.
func sealed(t testing.TB, entries []entry) []byte {
	t.Helper()

	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.name == "SHA256SUMS" })
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })

	var sums bytes.Buffer

	for _, e := range entries {
		fmt.Fprintf(&sums, "%s  %s\n", sum(e.data), e.name)
	}

	return pack(t, append([]entry{{"SHA256SUMS", sums.Bytes(), tar.TypeReg}}, entries...))
}

func index(t testing.TB, entries []entry, match func(string) bool) int {
	t.Helper()

	i := slices.IndexFunc(entries, func(e entry) bool { return match(e.name) })
	if i < 0 {
		t.Fatal("there is no such member")
	}

	return i
}
