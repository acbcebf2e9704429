package stage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory is an open directory. Everything in it is reached through the descriptor, so that a
// run works on one directory from its first look to its last rename, whatever happens to the path.
type directory struct {
	sys  *system
	fd   int
	path string
}

func (s *system) openDirectory(path string) (*directory, error) {
	d := &directory{sys: s, path: path}

	err := s.call("open", path, func() (err error) {
		d.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)

		return err
	})
	if err != nil {
		return nil, err
	}

	return d, nil
}

func (d *directory) close() {
	unix.Close(d.fd)
}

func (d *directory) join(name string) string {
	return filepath.Join(d.path, name)
}

func (d *directory) stat() (st unix.Stat_t, err error) {
	err = d.sys.call("stat", d.path, func() error { return unix.Fstat(d.fd, &st) })

	return st, err
}

func (d *directory) lstat(name string) (st unix.Stat_t, err error) {
	err = d.sys.call("lstat", d.join(name), func() error {
		return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})

	return st, err
}

func (d *directory) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)

	var n int

	err := d.sys.call("readlink", d.join(name), func() (err error) {
		n, err = unix.Readlinkat(d.fd, name, buf)

		return err
	})

	return string(buf[:n]), err
}

// visit hands over the names of the directory's entries, in no order. They come a few at a time: a
// directory may hold more of them than this program has memory for.
func (d *directory) visit(f func(name string) error) error {
	var file *os.File

	err := d.sys.call("readdir", d.path, func() error {
		// A descriptor of its own: the listing offset belongs to the open file.
		fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			file = os.NewFile(uintptr(fd), d.path)
		}

		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()

	for {
		names, err := file.Readdirnames(256)

		for _, name := range names {
			if err := f(name); err != nil {
				return err
			}
		}

		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &fs.PathError{Op: "readdir", Path: d.path, Err: err}
		}
	}
}

// names lists the directory's entries that are wanted, in no order.
func (d *directory) names(wanted func(name string) bool) ([]string, error) {
	var names []string

	err := d.visit(func(name string) error {
		if wanted(name) {
			names = append(names, name)
		}

		return nil
	})

	return names, err
}

// open opens a regular file for reading. Anything else is refused without being read: opening a
// FIFO would wait for a writer, and opening a device may do anything.
func (d *directory) open(name string) (*file, unix.Stat_t, error) {
	st, err := d.lstat(name)
	if err != nil {
		return nil, st, err
	}

	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, &notRegularError{path: d.join(name), what: kindOf(st.Mode).String()}
	}

	f, err := d.openat(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, st, err
	}

	unix.Fadvise(f.fd, 0, 0, unix.FADV_RANDOM)

	st, err = f.stat()
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = &notRegularError{path: f.path, what: kindOf(st.Mode).String()}
	}

	if err != nil {
		f.close()

		return nil, st, err
	}

	return f, st, nil
}

func (d *directory) create(name string) (*file, error) {
	return d.openat(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

func (d *directory) openat(name string, flags int, mode uint32) (*file, error) {
	f := &file{sys: d.sys, path: d.join(name)}

	call := "open"
	if flags&unix.O_CREAT != 0 {
		call = "create"
	}

	err := d.sys.call(call, f.path, func() (err error) {
		f.fd, err = unix.Openat(d.fd, name, flags|unix.O_CLOEXEC, mode)

		return err
	})
	if err != nil {
		return nil, err
	}

	return f, nil
}

func (d *directory) symlink(target, name string) error {
	return d.sys.call("symlink", d.join(name), func() error {
		return unix.Symlinkat(target, d.fd, name)
	})
}

func (d *directory) rename(from, to string) error {
	return d.sys.call("rename", d.join(to), func() error {
		return unix.Renameat(d.fd, from, d.fd, to)
	})
}

// renameNew renames only where nothing has the new name; EEXIST says that something has.
func (d *directory) renameNew(from, to string) error {
	return d.sys.call("rename", d.join(to), func() error {
		err := unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			// A file system or kernel without the flag: the caller has just looked.
			return unix.Renameat(d.fd, from, d.fd, to)
		}

		return err
	})
}

func (d *directory) unlink(name string) error {
	return d.sys.call("unlink", d.join(name), func() error { return unix.Unlinkat(d.fd, name, 0) })
}

// chmod changes the mode of a file, and of no symlink's target where the kernel can tell (6.6).
func (d *directory) chmod(name string, mode uint32) error {
	return d.sys.call("chmod", d.join(name), func() error {
		err := unix.Fchmodat(d.fd, name, mode, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return unix.Fchmodat(d.fd, name, mode, 0)
		}

		return err
	})
}

func (d *directory) sync() error {
	return d.sys.call("fsync", d.path, func() error { return unix.Fsync(d.fd) })
}
