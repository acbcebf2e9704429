package oci

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression of a layer.
type Compression string

// The compressions of the OCI image specification.
const (
	Zstd Compression = "zstd"
	Gzip Compression = "gzip"
	None Compression = "none"
)

// zstdWindow is how far back a match may lie unless said otherwise. Separately linked plugins share most of their code,
// at distances of a few megabytes; 32 MiB spans several of them, and every zstd decoder in use
// accepts it (the usual limit is 128 MiB).
const zstdWindow = 32 << 20

// gzipLevel is one below the best, which takes more than four times as long for 0.3 % of a plugin layer.
const gzipLevel = 8

// parameters names what the compressed bytes depend on besides the content and the library's version.
func (c Compression) parameters(window int) string {
	switch c {
	case Zstd:
		return fmt.Sprintf("zstd best window=%d", window)
	case Gzip:
		return fmt.Sprintf("gzip %d", gzipLevel)
	default:
		return string(c)
	}
}

func (c Compression) mediaType() (types.MediaType, error) {
	switch c {
	case Zstd:
		return types.OCILayerZStd, nil
	case Gzip:
		return types.OCILayer, nil
	case None:
		return types.OCIUncompressedLayer, nil
	default:
		return "", fmt.Errorf("unknown compression %q", c)
	}
}

// newWriter compresses into w, with the same output for the same input on every machine.
func (c Compression) newWriter(w io.Writer, window int) (io.WriteCloser, error) {
	switch c {
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window),
			zstd.WithEncoderConcurrency(1))
	case Gzip:
		return gzip.NewWriterLevel(w, gzipLevel)
	case None:
		return nopCloser{w}, nil
	default:
		return nil, fmt.Errorf("unknown compression %q", c)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// decoderMemory bounds what an untrusted zstd stream may make the decoder allocate.
const decoderMemory = 256 << 20

// Decompress recognises gzip, zstd and uncompressed content by its first bytes, whatever anyone
// calls it, and returns the content.
func Decompress(r io.Reader) (io.ReadCloser, Compression, error) {
	buffered := bufio.NewReader(r)

	head, err := buffered.Peek(4)
	if err != nil && err != io.EOF { //nolint:errorlint // Peek returns it bare
		return nil, "", err
	}

	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, "", fmt.Errorf("reading gzip: %w", err)
		}

		return z, Gzip, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(decoderMemory), zstd.WithDecoderMaxWindow(decoderMemory))
		if err != nil {
			return nil, "", fmt.Errorf("reading zstd: %w", err)
		}

		return z.IOReadCloser(), Zstd, nil
	default:
		return io.NopCloser(buffered), None, nil
	}
}

// Open opens a file for reading what Decompress makes of it.
func Open(name string) (io.ReadCloser, Compression, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, "", err
	}

	content, compression, err := Decompress(file)
	if err != nil {
		file.Close()

		return nil, "", err
	}

	return &closeBoth{content, file}, compression, nil
}

// closeBoth closes a decompressor and what it reads from.
type closeBoth struct {
	io.ReadCloser
	under io.Closer
}

func (c *closeBoth) Close() error {
	return errors.Join(c.ReadCloser.Close(), c.under.Close())
}
