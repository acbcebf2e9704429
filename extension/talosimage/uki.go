package talosimage

import (
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errNoInitrd says that a PE program is no unified kernel image.
var errNoInitrd = errors.New("no .initrd section")

// ukiInitrds returns the .initrd sections of a unified kernel image, in order. Other PE programs, such as
// a kernel or a boot loader, give errNoInitrd.
func ukiInitrds(r io.ReaderAt) (initrds []io.Reader, err error) {
	defer guard("reading PE", &err)

	r, err = withoutSymbols(r)
	if err != nil {
		return nil, err
	}

	file, err := pe.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("reading PE: %w", err)
	}

	for _, section := range file.Sections {
		if section.Name != ".initrd" {
			continue
		}

		// The size on disk is rounded up.
		size := int64(section.Size)
		if virtual := int64(section.VirtualSize); virtual > 0 && virtual < size {
			size = virtual
		}

		initrds = append(initrds, io.NewSectionReader(r, int64(section.Offset), size))
	}

	if len(initrds) == 0 {
		return nil, errNoInitrd
	}

	return initrds, nil
}

// withoutSymbols hides a large symbol table, which the library would read into memory whatever its size.
// A small one stays: long section names lie behind it.
func withoutSymbols(r io.ReaderAt) (io.ReaderAt, error) {
	const (
		pointerAt = 0x3c
		signature = 4
		// Of the COFF header: machine, number of sections, time stamp; then the symbol table and its length.
		headerSize, symbolsAt, symbolsSize = 20, 8, 8
		symbolSize                         = 18
		maxSections                        = 96
		maxSymbols                         = 1 << 20
	)

	var pointer [4]byte
	if _, err := r.ReadAt(pointer[:], pointerAt); err != nil {
		return nil, fmt.Errorf("reading PE: %w", err)
	}

	coff := int64(binary.LittleEndian.Uint32(pointer[:])) + signature

	var header [headerSize]byte
	if _, err := r.ReadAt(header[:], coff); err != nil {
		return nil, fmt.Errorf("reading PE: %w", err)
	}

	if n := binary.LittleEndian.Uint16(header[2:]); n > maxSections {
		return nil, fmt.Errorf("reading PE: %d sections", n)
	}

	symbols := int64(binary.LittleEndian.Uint32(header[12:])) * symbolSize
	// The string table behind the symbols starts with its size.
	strings := make([]byte, 4)
	_, err := r.ReadAt(strings, int64(binary.LittleEndian.Uint32(header[8:]))+symbols)

	if err == nil && symbols+int64(binary.LittleEndian.Uint32(strings)) <= maxSymbols {
		return r, nil
	}

	return zeroed{r, coff + symbolsAt, symbolsSize}, nil
}

// zeroed is a file in which some bytes read as zero.
type zeroed struct {
	r            io.ReaderAt
	start, count int64
}

func (z zeroed) ReadAt(p []byte, off int64) (int, error) {
	n, err := z.r.ReadAt(p, off)

	for i := max(z.start-off, 0); i < min(z.start+z.count-off, int64(n)); i++ {
		p[i] = 0
	}

	return n, err
}
