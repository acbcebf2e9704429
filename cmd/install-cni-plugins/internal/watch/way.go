package watch

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// step is a directory on the way.
type step struct {
	path     string
	dev, ino uint64
	// next is the name that matters in it; empty in the bin directory itself, where all plugins do.
	next string
}

// walk lists the directories on the way, as far as they are there.
func (n *notifier) walk() (way []step) {
	linked := map[step]bool{}
	n.deleted = ""

	defer func() { n.linked = linked }()

	dest, err := filepath.Abs(n.dest)
	if err != nil {
		dest = n.dest
	}

	path := "/"
	names := strings.FieldsFunc(dest, func(r rune) bool { return r == '/' })

	for i := 0; ; i++ {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return way
		}

		s := step{path: path, dev: uint64(st.Dev), ino: st.Ino}
		if i < len(names) {
			s.next = names[i]
		}

		linked[s] = st.Nlink > 0 || n.linked[s]
		if st.Nlink == 0 && linked[s] && n.deleted == "" {
			n.deleted = path + " shows a directory that was deleted on the node; " + startAnew
		}

		way = append(way, s)

		if i == len(names) {
			return way
		}

		path = filepath.Join(path, names[i])
	}
}

func isMount(path string) bool {
	var st unix.Statx_t

	err := unix.Statx(unix.AT_FDCWD, path, 0, 0, &st)

	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
