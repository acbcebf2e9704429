package talosimage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cavaliergopher/cpio"
)

// walkInitramfs calls visit for every regular file of an initramfs: cpio archives one behind the other,
// each compressed or not, with zeros in between. That is how the kernel reads it: a uCode archive
// stands in front uncompressed, extensions are appended behind.
func walkInitramfs(ctx context.Context, r io.Reader, visit func(name string, size int64, content io.Reader) error) (err error) {
	defer guard("reading initramfs", &err)

	buffered := bufio.NewReaderSize(r, bufferSize)
	w := &walker{ctx: ctx, visit: visit, left: maxInitramfs}

	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}

		more, err := skipZeros(buffered)
		if err != nil {
			return fmt.Errorf("reading initramfs: %w", err)
		}

		if !more {
			if w.archives == 0 {
				return errors.New("reading initramfs: no cpio archive in it")
			}

			return nil
		}

		if err := w.segment(buffered); err != nil {
			return fmt.Errorf("reading initramfs: segment %d: %w", n+1, err)
		}
	}
}

type walker struct {
	ctx      context.Context //nolint:containedctx // lives for one call
	visit    func(string, int64, io.Reader) error
	left     int64
	entries  int
	archives int
}

// segment reads one cpio archive or one compressed member, which holds any number of them.
func (w *walker) segment(r *bufio.Reader) error {
	head, _ := r.Peek(headSize)

	if skippable(head) {
		return skipFrame(r)
	}

	k := kindOf(head)

	switch k {
	case kindCPIO:
		return w.archive(r)
	case kindGzip, kindXZ, kindZstd:
	default:
		return fmt.Errorf("neither cpio nor gzip, xz or zstd (starts with %q)", head)
	}

	content, closeMember, err := member(r, k)
	if err != nil {
		return err
	}
	defer closeMember()

	unpacked := newLimited(content, w.left)
	defer func() { w.left = unpacked.left }()

	inner := bufio.NewReaderSize(unpacked, bufferSize)

	for {
		more, err := skipZeros(inner)
		if err != nil {
			return fmt.Errorf("reading %s: %w", k, err)
		}

		if !more {
			return nil
		}

		if head, _ := inner.Peek(headSize); kindOf(head) != kindCPIO {
			return fmt.Errorf("no cpio archive inside %s (starts with %q)", k, head)
		}

		if err := w.archive(inner); err != nil {
			return fmt.Errorf("reading %s: %w", k, err)
		}
	}
}

// archive reads one cpio archive up to and including its trailer.
func (w *walker) archive(r *bufio.Reader) error {
	w.archives++

	// The library takes any end of input for the end of the archive.
	archive := cpio.NewReader(whole{r})

	for {
		if err := w.ctx.Err(); err != nil {
			return err
		}

		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fmt.Errorf("reading cpio: %w", err)
		}

		if w.entries++; w.entries > maxEntries {
			return fmt.Errorf("reading cpio: more than %d entries", maxEntries)
		}

		if header.Mode&cpio.ModeType != cpio.TypeReg {
			continue
		}

		if err := w.visit(header.Name, header.Size, archive); err != nil {
			return err
		}
	}
}

// skipZeros skips padding and reports whether anything follows.
func skipZeros(r *bufio.Reader) (bool, error) {
	for {
		// Peek fills the buffer; then it is looked at whole.
		if _, err := r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}

			return false, err
		}

		buffered, err := r.Peek(r.Buffered())
		if err != nil {
			return false, err
		}

		rest := bytes.TrimLeft(buffered, "\x00")
		if _, err := r.Discard(len(buffered) - len(rest)); err != nil {
			return false, err
		}

		if len(rest) > 0 {
			return true, nil
		}
	}
}

func skipFrame(r *bufio.Reader) error {
	header, err := take(r, 8)
	if err != nil {
		return err
	}

	_, err = io.CopyN(io.Discard, whole{r}, int64(binary.LittleEndian.Uint32(header[4:])))

	return err
}
