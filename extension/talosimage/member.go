package talosimage

import (
	"bufio"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// member decompresses exactly one gzip member, xz stream or zstd frame, and leaves the input behind it.
// The decompressors read ahead, so xz and zstd get no more than their own bytes.
func member(r *bufio.Reader, k kind) (io.Reader, func(), error) {
	none := func() {}

	switch k {
	case kindGzip:
		// It reads byte by byte from a bufio.Reader, and so stops where its member does.
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, none, fmt.Errorf("reading gzip: %w", err)
		}

		z.Multistream(false)

		return z, none, nil
	case kindXZ:
		z, err := xz.NewReader(newXZStream(r), maxWindow)
		if err != nil {
			return nil, none, fmt.Errorf("reading xz: %w", err)
		}

		return z, none, nil
	case kindZstd:
		z, err := newZstd(newZstdFrame(r))
		if err != nil {
			return nil, none, err
		}

		return z, z.Close, nil
	default:
		return nil, none, fmt.Errorf("compression %q is not one that Talos uses", k)
	}
}

func newZstd(r io.Reader) (*zstd.Decoder, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("reading zstd: %w", err)
	}

	return z, nil
}

// decompressAll decompresses a whole stream, of as many members as it has, or passes it on as it is.
func decompressAll(r io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(r, bufferSize)

	// At the end of the input there are fewer bytes, which is no error here.
	head, _ := buffered.Peek(headSize)

	switch k := kindOf(head); k {
	case kindGzip:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, fmt.Errorf("reading gzip: %w", err)
		}

		return z, func() {}, nil
	case kindZstd:
		z, err := newZstd(buffered)
		if err != nil {
			return nil, nil, err
		}

		return z, z.Close, nil
	default:
		return buffered, func() {}, nil
	}
}

const bufferSize = 256 << 10
