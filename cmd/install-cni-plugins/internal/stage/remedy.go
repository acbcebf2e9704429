package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// explain says what failed and what to do about it. name is the plugin that could not be written;
// empty where it is the directory itself.
func (r *run) explain(name string, err error) string {
	text := sentence(err)
	if remedy := r.remedy(name, err); remedy != "" {
		text += "; " + remedy
	}

	return text
}

func (r *run) remedy(name string, err error) string {
	var e *fs.PathError
	if !errors.As(err, &e) || r.dst != nil && !strings.HasPrefix(e.Path, r.dst.path) {
		return "" // it is not the destination that fails
	}

	var errno unix.Errno
	if !errors.As(err, &errno) {
		return ""
	}

	switch errno {
	case unix.EACCES, unix.EPERM:
		return r.denied(name, errno)
	case unix.ENOSPC:
		return r.full()
	}

	text := remedies[errno]
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, r.Dest)
	}

	if d := r.Distro; d.Name != "" && (errno == unix.ENOENT || errno == unix.EROFS) {
		text += fmt.Sprintf("; %s has its plugins in %s", d.Name, d.BinDir)
	}

	return text
}

var remedies = map[unix.Errno]string{
	unix.EROFS:   "%s is mounted read-only: mount it writable, without readOnly in the pod's volumeMounts",
	unix.EDQUOT:  "raise the disk quota of %s or free space there",
	unix.EIO:     "the disk or its file system is failing: see the node's kernel log",
	unix.EXDEV:   "%s is split over several file systems: remove the mount that covers the plugin",
	unix.EBUSY:   "a mount covers that name: unmount it",
	unix.ENOENT:  "mount the node's bin directory at %s, or pass --create to make it",
	unix.ENOTDIR: "%s must be a directory: name the node's bin directory with --dest",
	unix.ELOOP:   "%s runs into a circle of symlinks: name the directory itself",
	unix.ESTALE:  "the network file system under %s has gone: mount it anew",
	unix.ENOMEM:  "raise the container's memory limit",
	unix.EMFILE:  "raise the limit of open files",
	unix.ENFILE:  "the node has no file handles left: raise fs.file-max",
	unix.ENODEV:  "the device under %s has gone",
	unix.EFBIG:   "raise the limit of file sizes (RLIMIT_FSIZE)",
}

// full tells a file system without blocks from one without inodes.
func (r *run) full() string {
	var st unix.Statfs_t
	if r.dst != nil && unix.Fstatfs(r.dst.fd, &st) == nil && st.Files > 0 && st.Ffree == 0 {
		return fmt.Sprintf("the file system of %s has no inodes left: remove files there", r.Dest)
	}

	return fmt.Sprintf("free space on the file system of %s", r.Dest)
}

// denied finds out why a write was not permitted: an attribute, ownership, or a security module.
func (r *run) denied(name string, errno unix.Errno) string {
	const module = "a security module denies it: with SELinux run the container as type spc_t, level s0, and look for a denial in the node's audit log"

	if r.dst == nil {
		return module
	}

	if flags := r.dst.frozen(name); flags != "" {
		return flags
	}

	st, err := r.dst.stat()
	if err != nil {
		return module
	}

	uid := uint32(os.Geteuid())

	if errno == unix.EACCES && !capable(unix.CAP_DAC_OVERRIDE) && !writableBy(st, uid) {
		return fmt.Sprintf("%s belongs to uid %d (mode %04o) and this process, uid %d, lacks CAP_DAC_OVERRIDE: add that capability or run as uid %d",
			r.Dest, st.Uid, st.Mode&0o7777, uid, st.Uid)
	}

	if errno == unix.EPERM && st.Mode&unix.S_ISVTX != 0 && uid != st.Uid && !capable(unix.CAP_FOWNER) {
		return fmt.Sprintf("%s is sticky and belongs to uid %d: add CAP_FOWNER or run as uid %d", r.Dest, st.Uid, st.Uid)
	}

	return module
}

// frozen says which attribute of a file or of the directory forbids writing; the flags are
// those of chattr.
func (d *directory) frozen(name string) string {
	const immutable, appendOnly = 0x10, 0x20

	check := func(fd int, path string) string {
		switch flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); {
		case err != nil:
			return ""
		case flags&immutable != 0:
			return fmt.Sprintf("it has the immutable attribute: chattr -i %s", path)
		case flags&appendOnly != 0:
			return fmt.Sprintf("it has the append-only attribute: chattr -a %s", path)
		default:
			return ""
		}
	}

	if text := check(d.fd, d.path); text != "" || name == "" {
		return text
	}

	st, err := d.lstat(name)
	if err != nil || kindOf(st.Mode) != regular {
		return ""
	}

	f, _, err := d.open(name)
	if err != nil {
		return ""
	}
	defer f.close()

	return check(f.fd, f.path)
}

// writableBy reports whether the mode bits let a user of our groups write to a directory.
func writableBy(st unix.Stat_t, uid uint32) bool {
	const wx = 0o3

	switch {
	case uid == st.Uid:
		return st.Mode>>6&wx == wx
	case inGroup(st.Gid):
		return st.Mode>>3&wx == wx
	default:
		return st.Mode&wx == wx
	}
}

func inGroup(gid uint32) bool {
	groups, _ := os.Getgroups()

	return int(gid) == os.Getegid() || slices.Contains(groups, int(gid))
}

// capable reports whether this process has a capability; it asks the kernel, not /proc.
func capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

	var data [2]unix.CapUserData

	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Effective&(1<<(capability%32)) != 0
}
