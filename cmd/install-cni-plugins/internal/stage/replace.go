package stage

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// errMoved says that a name has something else than was looked at: another writer was there.
var errMoved = errors.New("another writer changed it at the same moment")

// attempts bounds how often a name is looked at again after another writer changed it.
const attempts = 3

// attributes are what a new file gets besides its content.
type attributes struct {
	mode uint32
	// uid and gid are left as they come where they are negative.
	uid, gid int
}

// pluginAttributes are those of a staged plugin. The group is our own because a set-group-ID
// directory would give another one.
func pluginAttributes() attributes {
	return attributes{mode: mode, uid: -1, gid: os.Getegid()}
}

// assume gives a file its attributes.
func (f *file) assume(attr attributes) error {
	st, err := f.stat()
	if err != nil {
		return err
	}

	uid, gid := attr.uid, attr.gid
	if uid == int(st.Uid) {
		uid = -1
	}

	if gid == int(st.Gid) {
		gid = -1
	}

	if uid >= 0 || gid >= 0 {
		if err := f.chown(uid, gid); err != nil {
			return err
		}
	}

	return f.chmod(attr.mode)
}

// replace gives a name the content of a file. The file at the name is complete at every moment: the
// content is written, checked and synced under a temporary name, and the write descriptor closed,
// before the rename. was is what the name had when the decision to replace it was taken.
func (d *directory) replace(ctx context.Context, name string, was target, from content, digest string, attr attributes) error {
	tmp, release, err := d.fill(ctx, name, from, digest, attr)
	if err != nil {
		return err
	}
	defer release()

	if err := d.publish(tmp, name, was); err != nil {
		d.unlink(tmp)

		return err
	}

	return nil
}

// fill writes a temporary file and returns its name. It stays locked until release is called.
func (d *directory) fill(ctx context.Context, name string, from content, digest string, attr attributes) (tmp string, release func(), err error) {
	var f, lock *file

	for try := 0; ; try++ {
		tmp = temporaryName()

		if f, lock, err = d.temporary(tmp, name); err == nil {
			break
		}

		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, errSwept) || try == attempts {
			return "", nil, err
		}
	}

	err = copyTo(ctx, f, lock, from, digest, attr)
	if e := f.close(); err == nil {
		err = e
	}

	if err != nil {
		d.unlink(tmp)
		lock.close()

		return "", nil, err
	}

	return tmp, func() { lock.close() }, nil
}

var errSwept = errors.New("another installer removed the temporary file")

// temporary creates a temporary file, open for writing, and a second descriptor that holds its
// lock: the first one must be closed before the file gets its name, or executing it would fail with
// ETXTBSY, and the lock must outlive that. Errors name the file it is for.
func (d *directory) temporary(tmp, name string) (f, lock *file, err error) {
	f, err = d.create(tmp)
	if err != nil {
		return nil, nil, relabel(err, d.join(name))
	}

	f.path = d.join(name)

	lock, err = d.openat(tmp, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		// A sweeper took the file in the instant in which it had no lock yet.
		f.close()

		return nil, nil, errSwept
	} else if err != nil {
		d.unlink(tmp)
		f.close()

		return nil, nil, relabel(err, d.join(name))
	}

	var st unix.Stat_t

	// Where locks do not work a sweeper cannot take one either, and then sweeps nothing.
	busy := errors.Is(unix.Flock(lock.fd, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	if busy || unix.Fstat(lock.fd, &st) == nil && st.Nlink == 0 {
		f.close()
		lock.close()

		return nil, nil, errSwept
	}

	return f, lock, nil
}

// content is where a file's bytes come from.
type content struct {
	file *file
	// twin, where there is one, is a file in the destination that should have the same bytes.
	twin *file
}

// copyTo fills f, which reader reads. Where the file system can, f shares the twin's blocks: what several
// names are as one program then takes the disk space of one.
func copyTo(ctx context.Context, f, reader *file, from content, digest string, attr attributes) error {
	shared, err := f.share(ctx, reader, from.twin, digest)
	if err == nil && !shared {
		err = copyBytes(ctx, f, from.file, digest)
	}

	if err != nil {
		return err
	}

	if err := f.assume(attr); err != nil {
		return err
	}

	if err := f.sync(); err != nil {
		return err
	}

	f.drop(0, 0)

	return nil
}

func copyBytes(ctx context.Context, f, from *file, digest string) error {
	d := payload.NewDigester()
	out := &trickle{file: f}

	err := from.scan(ctx, func(p []byte) error {
		d.Write(p)
		_, err := out.Write(p)

		return err
	})
	if err != nil {
		return err
	}

	if got := d.Digest(); got != digest {
		return fmt.Errorf("%s has digest %s, not %s as it should; it is damaged", from.path, Short(got), Short(digest))
	}

	return nil
}

// share makes f a clone of its twin and reports whether that gave it the right bytes: another writer
// may have changed the twin. Where cloning does not work nothing is said, copying does the same.
func (f *file) share(ctx context.Context, reader, twin *file, digest string) (bool, error) {
	if twin == nil || f.sys.call("clone", f.path, func() error { return unix.IoctlFileClone(f.fd, twin.fd) }) != nil {
		return false, nil
	}

	got, err := reader.digest(ctx)
	if err != nil || got == digest {
		return err == nil, err
	}

	return false, f.truncate()
}

// publish renames a complete temporary to its name, unless the name has something else by now.
func (d *directory) publish(tmp, name string, was target) error {
	same, err := was.unchanged(d, name)
	if err != nil {
		return err
	}

	if !same {
		return errMoved
	}

	if was.kind != absent {
		return d.rename(tmp, name)
	}

	err = d.renameNew(tmp, name)
	if errors.Is(err, unix.EEXIST) {
		return errMoved
	}

	return err
}
