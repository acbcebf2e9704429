package talosimage

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// metadata reads a table's content, which lies in blocks of up to 8 KiB, each with its length in front.
func (s *squashfs) metadata(start uint64, offset uint16) (io.Reader, error) {
	m := &metadata{r: s.section(start), decode: s.decoder(metadataBlock)}
	if _, err := io.CopyN(io.Discard, m, int64(offset)); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}

	return m, nil
}

type metadata struct {
	r      io.Reader
	decode blockDecoder
	block  []byte
}

func (m *metadata) Read(p []byte) (int, error) {
	for len(m.block) == 0 {
		var length uint16
		if err := binary.Read(m.r, binary.LittleEndian, &length); err != nil {
			return 0, err
		}

		const stored = 0x8000

		size := length &^ stored
		if size == 0 || size > metadataBlock {
			return 0, fmt.Errorf("a metadata block of %d bytes", size)
		}

		raw := make([]byte, size)
		if _, err := io.ReadFull(m.r, raw); err != nil {
			return 0, err
		}

		if m.block = raw; length&stored != 0 {
			break
		}

		var err error
		if m.block, err = m.decode.Decompress(raw); err != nil {
			return 0, err
		}
	}

	n := copy(p, m.block)
	m.block = m.block[n:]

	return n, nil
}

// codec decompresses one block to at most limit bytes.
type codec func(block []byte, limit int) ([]byte, error)

// blockDecoder is a codec with its limit; the library calls it.
type blockDecoder struct {
	codec codec
	limit int
}

func (s *squashfs) decoder(limit uint32) blockDecoder { return blockDecoder{s.codec, int(limit)} }

// Decompress is what the library asks of a decompressor.
func (d blockDecoder) Decompress(block []byte) ([]byte, error) {
	unpacked, err := d.codec(block, d.limit)

	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing a block: %w", err)
	case len(unpacked) == 0 || len(unpacked) > d.limit:
		return nil, fmt.Errorf("a block unpacks to %d bytes or more, not to at most %d", len(unpacked), d.limit)
	default:
		return unpacked, nil
	}
}

func newCodec(id uint16) (codec, error) {
	switch id {
	case 1:
		return func(block []byte, limit int) ([]byte, error) {
			z, err := zlib.NewReader(bytes.NewReader(block))
			if err != nil {
				return nil, err
			}

			return io.ReadAll(io.LimitReader(z, int64(limit)+1))
		}, nil
	case 4:
		return func(block []byte, limit int) ([]byte, error) {
			z, err := xz.NewReader(bytes.NewReader(block), maxWindow)
			if err != nil {
				return nil, err
			}

			return io.ReadAll(io.LimitReader(z, int64(limit)+1))
		}, nil
	case 6:
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxBlock))
		if err != nil {
			return nil, err
		}

		return func(block []byte, _ int) ([]byte, error) { return z.DecodeAll(block, nil) }, nil
	default:
		names := map[uint16]string{2: "lzma", 3: "lzo", 5: "lz4"}

		return nil, fmt.Errorf("reading squashfs: compression %d (%s) is not one that Talos uses (gzip, xz, zstd)", id, names[id])
	}
}
