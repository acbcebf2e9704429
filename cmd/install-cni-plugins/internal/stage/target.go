package stage

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// mode is what every staged file gets, whatever the umask.
const mode = 0o755

// target is what has a plugin's name in a directory.
type target struct {
	kind kind
	stat unix.Stat_t
	// link is where a symlink points.
	link string
	// digest is over a whole regular file. It is empty where the file cannot be read, which is
	// then in err: a file of mode 0 is one that has to be replaced all the same.
	digest string
	err    error
}

// look finds out what has a name. Where another writer is just changing it, it looks again.
func (d *directory) look(ctx context.Context, name string) (t target, err error) {
	for range attempts {
		var other *notRegularError

		t, err = d.lookOnce(ctx, name)
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ELOOP) && !errors.As(err, &other) {
			break
		}
	}

	return t, err
}

func (d *directory) lookOnce(ctx context.Context, name string) (target, error) {
	st, err := d.lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return target{kind: absent}, nil
	} else if err != nil {
		return target{}, err
	}

	t := target{kind: kindOf(st.Mode), stat: st}

	switch t.kind {
	case symlink:
		t.link, err = d.readlink(name)

		return t, err
	case regular:
	default:
		return t, nil
	}

	f, st, err := d.open(name)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		t.err = err

		return t, nil
	} else if err != nil {
		return target{}, err
	}
	defer f.close()

	t.stat = st
	t.digest, err = f.digest(ctx)

	return t, err
}

// runnable reports whether everybody can execute the file and nobody but its owner can change it.
func (t target) runnable() bool {
	return t.stat.Mode&0o555 == 0o555 && t.stat.Mode&(0o022|unix.S_ISUID|unix.S_ISGID) == 0
}

// describe returns the target in the form reports use.
func (t target) describe() string {
	if t.kind == symlink {
		return "symlink:" + t.link
	}

	return t.digest
}

// unchanged reports whether a name still has what was looked at. The change time of a file that has
// several names does not tell: it moves when one of the other names is replaced.
func (t target) unchanged(d *directory, name string) (bool, error) {
	st, err := d.lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return t.kind == absent, nil
	} else if err != nil {
		return false, err
	}

	return t.kind != absent && st.Ino == t.stat.Ino && st.Dev == t.stat.Dev && st.Mode == t.stat.Mode &&
		st.Size == t.stat.Size && st.Mtim == t.stat.Mtim && (st.Ctim == t.stat.Ctim || t.stat.Nlink > 1), nil
}
