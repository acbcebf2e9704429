package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// Files pass through memory a window at a time, and windows leave the page cache as the next ones
// come: a container's memory limit counts that cache, and plugins are far larger than the limit.
// Windows are big enough for the disk and small enough for two workers, a few windows each.
const (
	window = 512 << 10
	chunk  = 128 << 10
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// scan reads a file from its start and hands it to visit piece by piece. A file larger than any
// plugin is refused: a sparse one may be petabytes long, and some of /proc never end.
func (f *file) scan(ctx context.Context, visit func([]byte) error) error {
	if st, err := f.stat(); err == nil && st.Size > payload.MaxPluginSize {
		return f.tooLarge()
	}

	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)

	// Before the first read: reading ahead fills the cache too.
	keep := f.cached()

	// Dropping reaches back to where keeping ended: the cache is made of pieces that may be larger
	// than a window, and a piece goes when all of it may.
	kept := int64(0)

	if !slices.Contains(keep, 0) {
		f.prefetch(0)
	}

	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}

		if off > payload.MaxPluginSize {
			return f.tooLarge()
		}

		if off%window == 0 && !slices.Contains(keep, off/window+1) {
			f.prefetch(off + window)
		}

		n, err := f.ReadAt(buf[:], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		if n > 0 {
			if err := visit(buf[:n]); err != nil {
				return err
			}
		}

		i := off / window
		off += int64(n)

		switch {
		case off%window != 0 && err == nil:
		case slices.Contains(keep, i):
			kept = (i + 1) * window
		default:
			f.drop(kept, off-kept)
		}

		if err != nil {
			return nil
		}
	}
}

func (f *file) tooLarge() error {
	return fmt.Errorf("%s has more than %d MiB, more than any plugin; left as is", f.path, payload.MaxPluginSize>>20)
}

// prefetch asks for a window while the one before is being read. Some block devices read ahead by
// many megabytes if one lets them, so open switches that off.
func (f *file) prefetch(off int64) {
	unix.Fadvise(f.fd, off, window, unix.FADV_WILLNEED)
}

// cached lists the windows that lie in the page cache as a whole. Reading them costs this container
// nothing, and dropping them would slow down whoever uses the file: plugins run all day. Kernels
// before 6.5 cannot tell; there the list is empty.
func (f *file) cached() []int64 {
	var st unix.Stat_t
	if unix.Fstat(f.fd, &st) != nil {
		return nil
	}

	var (
		windows []int64
		page    = int64(unix.Getpagesize())
	)

	for off := int64(0); off < st.Size; off += window {
		length := min(window, st.Size-off)
		span := unix.CachestatRange{Off: uint64(off), Len: uint64(length)}

		var found unix.Cachestat_t
		if unix.Cachestat(uint(f.fd), &span, &found, 0) != nil {
			return nil
		}

		if found.Cache >= uint64((length+page-1)/page) {
			windows = append(windows, off/window)
		}
	}

	return windows
}

// digest returns the digest of the whole file.
func (f *file) digest(ctx context.Context) (string, error) {
	d := payload.NewDigester()

	err := f.scan(ctx, func(p []byte) error {
		d.Write(p)

		return nil
	})

	return d.Digest(), err
}

// drop lets the kernel forget the cached pages of a range; a length of 0 means up to the end.
func (f *file) drop(off, length int64) {
	unix.Fadvise(f.fd, off, length, unix.FADV_DONTNEED)
}
