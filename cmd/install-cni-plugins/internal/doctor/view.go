package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symlinks Linux follows in one path.
const maxLinks = 40

// view is the file tree as one process sees it: the node's, or the Multus container's. Paths within it
// are absolute, and absolute symlinks start at its own root, as after a chroot. Of a container no more
// may be known than what is mounted into it.
type view struct {
	mounts []mount
}

// mount says that what the view has at a path is at another path for this program.
type mount struct{ at, real string }

// rootView is a tree of which this program sees the root at dir.
func rootView(dir string) *view {
	return &view{[]mount{{"/", filepath.Clean(dir)}}}
}

// real returns where this program finds a path that has no symlinks in it. It is empty where the view
// is not known to have it; leads says that something below is mounted all the same.
func (v *view) real(path string) (real string, leads bool) {
	best := -1

	for _, m := range v.mounts {
		if rest, ok := below(path, m.at); ok && len(m.at) >= best {
			best, real = len(m.at), filepath.Join(m.real, rest)
		}

		_, ok := below(m.at, path)
		leads = leads || ok
	}

	return real, leads
}

// below returns what follows a directory in a path.
func below(path, dir string) (string, bool) {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))

	return rest, ok && (rest == "" || rest[0] == '/')
}

// file is what a path leads to.
type file struct {
	// path is within the view, without symlinks; real is the same for this program.
	path, real string
	stat       unix.Stat_t
	// links are the symlinks that were followed, as paths within the view.
	links []string
}

func (f *file) mode() uint32    { return f.stat.Mode & unix.S_IFMT }
func (f *file) isRegular() bool { return f.mode() == unix.S_IFREG }
func (f *file) isDir() bool     { return f.mode() == unix.S_IFDIR }

// resolve follows a path to its end. Where that fails, the error names the path within the view that
// is not there, and the file holds the links that led to it.
func (v *view) resolve(path string) (*file, error) {
	f := &file{path: "/"}
	rest := parts(path)

	fail := func(err error) (*file, error) {
		return f, &fs.PathError{Op: "stat", Path: f.path, Err: err}
	}

	for {
		var leads bool

		if f.real, leads = v.real(f.path); f.real != "" {
			if err := unix.Lstat(f.real, &f.stat); err != nil {
				return fail(err)
			}
		} else if f.stat.Mode = unix.S_IFDIR; !leads {
			return fail(unix.ENOENT)
		}

		if f.mode() == unix.S_IFLNK {
			f.links = append(f.links, f.path)
			if len(f.links) > maxLinks {
				return fail(unix.ELOOP)
			}

			target, err := os.Readlink(f.real)
			if err != nil {
				return fail(err)
			}

			rest = append(parts(target), rest...)
			f.path = filepath.Dir(f.path)

			if filepath.IsAbs(target) {
				f.path = "/"
			}

			if len(rest) > unix.PathMax {
				return fail(unix.ENAMETOOLONG)
			}

			continue
		}

		if len(rest) == 0 {
			return f, nil
		}

		if !f.isDir() {
			return fail(unix.ENOTDIR)
		}

		f.path, rest = filepath.Join(f.path, rest[0]), rest[1:]
	}
}

// parts cuts a path into its names. A slash at the end asks for a directory, as a dot does.
func parts(path string) []string {
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if strings.HasSuffix(path, "/") {
		names = append(names, ".")
	}

	return names
}

// open opens a regular file that was resolved; what has taken its place since is not followed.
func (f *file) open() (*os.File, error) {
	return os.OpenFile(f.real, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}
