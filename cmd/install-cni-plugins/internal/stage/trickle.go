package stage

import (
	"errors"

	"golang.org/x/sys/unix"
)

// trickle writes a file and keeps few of its pages dirty or cached: each full window is sent to the
// disk at once, and dropped when the one after next is sent.
type trickle struct {
	*file
	written, sent int64
}

func (t *trickle) Write(p []byte) (int, error) {
	n, err := t.file.Write(p)
	t.written += int64(n)

	for err == nil && t.written-t.sent >= window {
		err = t.send()
	}

	return n, err
}

func (t *trickle) send() error {
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER

	err := t.syncRange(t.sent, unix.SYNC_FILE_RANGE_WRITE)

	if older := t.sent - 2*window; err == nil && older >= 0 {
		err = t.syncRange(older, wait)
		t.drop(0, t.sent-window)
	}

	t.sent += window

	return err
}

func (t *trickle) syncRange(off int64, flags int) error {
	return t.sys.call("write", t.path, func() error {
		err := unix.SyncFileRange(t.fd, off, window, flags)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			return nil // it only spares memory; fsync is what makes the file durable
		}

		return err
	})
}
