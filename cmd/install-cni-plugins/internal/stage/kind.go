package stage

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// kind is what a directory entry is.
type kind int

const (
	absent kind = iota
	regular
	symlink
	folder
	fifo
	socket
	device
)

func kindOf(mode uint32) kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return regular
	case unix.S_IFLNK:
		return symlink
	case unix.S_IFDIR:
		return folder
	case unix.S_IFIFO:
		return fifo
	case unix.S_IFSOCK:
		return socket
	default:
		return device
	}
}

func (k kind) String() string {
	return [...]string{
		absent:  "absent",
		regular: "a regular file",
		symlink: "a symlink",
		folder:  "a directory",
		fifo:    "a FIFO",
		socket:  "a socket",
		device:  "a device",
	}[k]
}

// notPlugin is the sentence for an entry that cannot be a plugin; scripts match it.
func notPlugin(name string, k kind) string {
	return fmt.Sprintf("%s is %s, not a plugin binary; left as is", name, k)
}

// notRegularError says that a path is not a regular file and was therefore not opened.
type notRegularError struct {
	path, what string
}

func (e *notRegularError) Error() string {
	return fmt.Sprintf("%s is %s, not a regular file", e.path, e.what)
}
