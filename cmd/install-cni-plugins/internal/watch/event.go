package watch

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// event is what inotify says of one change.
type event struct {
	wd   int32
	mask uint32
	name string
}

// events decodes what was read from inotify; an incomplete event ends it.
func events(buf []byte) iter.Seq[event] {
	return func(yield func(event) bool) {
		for len(buf) >= unix.SizeofInotifyEvent {
			length := uint64(binary.NativeEndian.Uint32(buf[12:]))
			if length > uint64(len(buf)-unix.SizeofInotifyEvent) {
				return
			}

			name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], []byte{0})
			e := event{wd: int32(binary.NativeEndian.Uint32(buf)), mask: binary.NativeEndian.Uint32(buf[4:]), name: string(name)}

			if !yield(e) {
				return
			}

			buf = buf[unix.SizeofInotifyEvent+length:]
		}
	}
}
