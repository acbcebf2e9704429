package talosimage

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// pieces passes on the bytes of a self-delimiting format piece by piece: next returns a short header and
// how many bytes of content follow it, or io.EOF behind the last piece.
type pieces struct {
	r       *bufio.Reader
	next    func() (header []byte, content int64, err error)
	header  []byte
	content int64
	err     error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.header) == 0 && p.content == 0 {
		if p.err == nil {
			p.header, p.content, p.err = p.next()
		}

		if p.err != nil {
			return 0, p.err
		}
	}

	if len(p.header) > 0 {
		n := copy(b, p.header)
		p.header = p.header[n:]

		return n, nil
	}

	n, err := p.r.Read(b[:min(int64(len(b)), p.content)])
	p.content -= int64(n)

	if err == io.EOF { //nolint:errorlint // bufio returns it bare
		err = io.ErrUnexpectedEOF
	}

	return n, err
}

// take reads exactly n bytes.
func take(r *bufio.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(whole{r}, b); err != nil {
		return nil, err
	}

	return b, nil
}

// newZstdFrame passes on one zstd frame (RFC 8878, section 3.1.1).
func newZstdFrame(r *bufio.Reader) io.Reader {
	f := &zstdFrame{r: r}

	return &pieces{r: r, next: f.next}
}

type zstdFrame struct {
	r        *bufio.Reader
	started  bool
	last     bool
	checksum bool
	ended    bool
}

func (f *zstdFrame) next() ([]byte, int64, error) {
	switch {
	case !f.started:
		f.started = true

		return f.frameHeader()
	case !f.last:
		return f.block()
	case f.checksum && !f.ended:
		f.ended = true

		return nil, 4, nil //nolint:mnd // bytes of the checksum
	default:
		return nil, 0, io.EOF
	}
}

func (f *zstdFrame) frameHeader() ([]byte, int64, error) {
	header, err := take(f.r, 5)
	if err != nil {
		return nil, 0, err
	}

	descriptor := header[4]
	single := descriptor&0x20 != 0
	f.checksum = descriptor&0x04 != 0

	rest := []int64{0, 1, 2, 4}[descriptor&0x03] + []int64{0, 2, 4, 8}[descriptor>>6]
	if single && descriptor>>6 == 0 {
		rest++
	}

	if !single {
		rest++
	}

	return header, rest, nil
}

func (f *zstdFrame) block() ([]byte, int64, error) {
	header, err := take(f.r, 3)
	if err != nil {
		return nil, 0, err
	}

	v := uint32(header[0]) | uint32(header[1])<<8 | uint32(header[2])<<16
	f.last = v&1 != 0

	// A run of one byte has just that byte.
	if v>>1&3 == 1 {
		return header, 1, nil
	}

	return header, int64(v >> 3), nil
}

// newXZStream passes on one xz stream (the .xz file format, version 1.2.1).
func newXZStream(r *bufio.Reader) io.Reader {
	s := &xzStream{r: r}
	s.step = s.streamHeader

	return &pieces{r: r, next: func() ([]byte, int64, error) { return s.step() }}
}

type xzStream struct {
	r     *bufio.Reader
	step  func() ([]byte, int64, error)
	check int64
	// chunks counts the bytes of a block's LZMA2 chunks, for the padding behind them.
	chunks int64
}

var errNotXZ = errors.New("not an xz stream")

func (s *xzStream) streamHeader() ([]byte, int64, error) {
	header, err := take(s.r, 12)
	if err != nil {
		return nil, 0, err
	}

	var ok bool
	if s.check, ok = map[byte]int64{0: 0, 1: 4, 4: 8, 10: 32}[header[7]]; !ok {
		return nil, 0, fmt.Errorf("%w: unknown check %d", errNotXZ, header[7])
	}

	s.step = s.blockOrIndex

	return header, 0, nil
}

// blockOrIndex reads a block header, or starts the index, which begins with a zero.
func (s *xzStream) blockOrIndex() ([]byte, int64, error) {
	size, err := take(s.r, 1)
	if err != nil {
		return nil, 0, err
	}

	if size[0] == 0 {
		return s.index(size)
	}

	s.chunks = 0
	s.step = s.chunk

	return size, int64(size[0])*4 + 3, nil
}

// chunk reads the header of an LZMA2 chunk.
func (s *xzStream) chunk() ([]byte, int64, error) {
	control, err := take(s.r, 1)
	if err != nil {
		return nil, 0, err
	}

	var more int

	switch c := control[0]; {
	case c == 0:
		s.chunks++
		s.step = s.blockOrIndex

		return control, (4-s.chunks%4)%4 + s.check, nil
	case c >= 0xc0:
		more = 5
	case c >= 0x80:
		more = 4
	case c <= 2:
		more = 2
	default:
		return nil, 0, fmt.Errorf("%w: LZMA2 control byte %#x", errNotXZ, c)
	}

	header, err := take(s.r, more)
	if err != nil {
		return nil, 0, err
	}

	// The size of the content stands first in a stored chunk, second in a compressed one.
	at := 0
	if more > 2 {
		at = 2
	}

	content := int64(binary.BigEndian.Uint16(header[at:])) + 1
	s.chunks += int64(1+more) + content

	return append(control, header...), content, nil
}

// index reads the index and the footer, which are short.
func (s *xzStream) index(index []byte) ([]byte, int64, error) {
	records, index, err := s.varint(index)
	if err != nil {
		return nil, 0, err
	}

	const most = 1 << 16
	if records > most {
		return nil, 0, fmt.Errorf("%w: %d blocks", errNotXZ, records)
	}

	for range 2 * records {
		if _, index, err = s.varint(index); err != nil {
			return nil, 0, err
		}
	}

	s.step = func() ([]byte, int64, error) { return nil, 0, io.EOF }

	const sum, footer = 4, 12

	return index, int64((4-len(index)%4)%4) + sum + footer, nil
}

func (s *xzStream) varint(read []byte) (uint64, []byte, error) {
	var v uint64

	for shift := 0; shift < 63; shift += 7 {
		b, err := take(s.r, 1)
		if err != nil {
			return 0, nil, err
		}

		read = append(read, b[0])
		v |= uint64(b[0]&0x7f) << shift

		if b[0]&0x80 == 0 {
			return v, read, nil
		}
	}

	return 0, nil, fmt.Errorf("%w: number too long", errNotXZ)
}
