package talosimage

import (
	"errors"
	"fmt"
	"io"
)

// Limits of what an image can make us read, in bytes unless they count something. Real ones: an initramfs
// of 100 MB, a root file system of 90 MB, a plugin of 5 MB.
const (
	// maxWindow is what a decompressor may keep in memory.
	maxWindow = 32 << 20
	// maxLayer and maxInitramfs bound what one layer and one initramfs unpack to.
	maxLayer     = 4 << 30
	maxInitramfs = 2 << 30
	maxEntries   = 100_000
	// maxPart bounds one file that is copied out of an image.
	maxPart   = 1 << 30
	maxPlugin = 128 << 20
)

var errTooMuch = errors.New("unpacks to more than any image of Talos")

// limited is a reader that fails beyond a number of bytes, where io.LimitedReader would just end.
type limited struct {
	r    io.Reader
	left int64
}

func newLimited(r io.Reader, limit int64) *limited { return &limited{r, limit} }

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		// The stream may end exactly here.
		if n, err := l.r.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}

		return 0, errTooMuch
	}

	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)

	return n, err
}

// whole turns an end of input into an error, for formats that say themselves where they end.
type whole struct{ r io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err == io.EOF { //nolint:errorlint // readers return it bare
		if n > 0 {
			return n, nil
		}

		return 0, io.ErrUnexpectedEOF
	}

	return n, err
}

// guard turns a panic of a library over malformed input into an error.
func guard(what string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: malformed (%v)", what, r)
	}
}
