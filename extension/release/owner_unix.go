//go:build unix

package release

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner of the one it replaces, for checks that run as root in a user's repository.
func keepOwner(file *os.File, info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}

	return file.Chown(int(stat.Uid), int(stat.Gid))
}
