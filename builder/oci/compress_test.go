package oci_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cnibake/cnibake/builder/oci"
)

func compress(t testing.TB, compression oci.Compression, data []byte) []byte {
	t.Helper()

	var (
		out bytes.Buffer
		w   io.WriteCloser
		err error
	)

	switch compression {
	case oci.Gzip:
		w = gzip.NewWriter(&out)
	case oci.Zstd:
		w, err = zstd.NewWriter(&out)
	default:
		return data
	}

	if err != nil {
		t.Fatal(err)
	}

	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func decompress(data []byte) ([]byte, oci.Compression, error) {
	r, compression, err := oci.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, compression, err
	}
	defer r.Close()

	content, err := io.ReadAll(r)

	return content, compression, err
}

func TestDecompressByContent(t *testing.T) {
	t.Parallel()

	for _, compression := range []oci.Compression{oci.Gzip, oci.Zstd, oci.None} {
		for _, content := range []string{"", "a", strings.Repeat("plugin", 100_000)} {
			got, recognised, err := decompress(compress(t, compression, []byte(content)))
			if err != nil || recognised != compression || string(got) != content {
				t.Errorf("%s of %d bytes: recognised as %s, %d bytes: %v", compression, len(content), recognised, len(got), err)
			}
		}
	}
}

func TestDecompressDamaged(t *testing.T) {
	t.Parallel()

	content := []byte(strings.Repeat("plugin", 1000))

	for name, data := range map[string][]byte{
		"gzip, header only": {0x1f, 0x8b},
		"gzip, cut":         cutShort(compress(t, oci.Gzip, content)),
		"zstd, cut":         cutShort(compress(t, oci.Zstd, content)),
		// A frame that asks for a window of 2 TiB, and a raw block.
		"zstd, window": {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x09, 0x00, 0x00, 'x'},
	} {
		if _, _, err := decompress(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func cutShort(data []byte) []byte { return data[:len(data)-5] }

func FuzzDecompress(f *testing.F) {
	for _, compression := range []oci.Compression{oci.Gzip, oci.Zstd, oci.None} {
		f.Add(compress(f, compression, []byte("some content")))
	}

	f.Fuzz(func(_ *testing.T, data []byte) {
		r, _, err := oci.Decompress(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer r.Close()

		_, _ = io.CopyN(io.Discard, r, 1<<20)
	})
}
