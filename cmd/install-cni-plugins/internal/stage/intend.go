package stage

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unusable reports whether a state directory fails as one that is not there for us fails, as
// opposed to one that is in trouble. Without a state directory staging goes on; with one in trouble
// nothing is replaced that could not be brought back.
func unusable(err error) bool {
	for _, errno := range []unix.Errno{unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOTDIR} {
		if errors.Is(err, errno) {
			return true
		}
	}

	return false
}

// changeFor says what writing a plugin over a target of that mode will have been.
func (e entry) changeFor(t target, perm uint32, digest, module string) *change {
	c := &change{Origin: created, Digest: digest, Module: module}

	previous := e.holds(t.digest)
	if t.kind == absent {
		// Ours has gone since; what had the name before us is still what had it before us.
		previous = e.Done
	}

	switch {
	case previous != nil:
		c.Origin, c.Before = previous.Origin, previous.Before
	case t.kind == symlink:
		c.Origin, c.Before = replaced, &before{Link: t.link}
	case t.kind == regular:
		c.Origin = replaced
		c.Before = &before{Digest: t.digest, Mode: perm, UID: t.stat.Uid, GID: t.stat.Gid}
	}

	return c
}

// intend keeps what is about to be replaced and records what is about to be written. A verdict
// whose file cannot be kept is turned into a failure. The first time it settles what earlier runs
// left pending.
func (r *run) intend(ctx context.Context, verdicts []verdict, todo []int, first bool) error {
	note, err := r.store.begin(ctx, r.LockWait)
	if err != nil {
		return err
	}
	defer r.store.end()

	if note != "" {
		r.report.note(note)
	}

	if first {
		if err := r.store.reconcile(ctx, r.dst); err != nil {
			return err
		}
	}

	entries := r.store.entries()

	for _, i := range todo {
		v := &verdicts[i]

		if err := r.keep(ctx, v, entries[v.plugin.Name]); unusable(err) {
			return err
		} else if err != nil {
			r.putModeBack(v)
			*v = v.fail(sentence(err))

			continue
		}

		e := entries[v.plugin.Name]
		e.Pending = v.change
		entries[v.plugin.Name] = e
	}

	return r.store.save(true)
}

// keep settles what the record will say of a write, and makes the backup that it relies on.
func (r *run) keep(ctx context.Context, v *verdict, e entry) error {
	perm := v.target.stat.Mode & 0o7777

	if v.target.kind == regular && v.target.digest == "" {
		if err := r.makeReadable(ctx, v); err != nil {
			return fmt.Errorf("it cannot be read for a backup: %s", sentence(err))
		}
	}

	v.change = e.changeFor(v.target, perm, v.plugin.Digest, r.src.manifest.Pin.Module)

	// Of what is ours the record has what was before it, and the backup of that.
	if v.target.kind != regular || !v.change.Before.matches(v.target) {
		return nil
	}

	return r.store.keep(ctx, r.dst, v.plugin.Name, v.target)
}

// makeReadable lets the owner of a file, which we are, read it: without capabilities even root
// cannot read a file of mode 0. The file is about to be replaced; if that fails, write puts the
// mode back.
func (r *run) makeReadable(ctx context.Context, v *verdict) error {
	st := v.target.stat
	if int(st.Uid) != os.Geteuid() {
		return v.target.err
	}

	name := v.plugin.Name
	if err := r.dst.chmod(name, st.Mode&0o7777|0o400); err != nil {
		return err
	}

	v.oldMode = &st.Mode

	t, err := r.dst.look(ctx, name)
	if err == nil && t.kind == regular && t.err == nil {
		v.target = t
		v.result.Old = t.describe()

		return nil
	}

	r.putModeBack(v)

	if err == nil {
		err = t.err
	}

	if err == nil {
		err = errMoved
	}

	return err
}

func (r *run) putModeBack(v *verdict) {
	if v.oldMode != nil {
		_ = r.dst.chmod(v.plugin.Name, *v.oldMode&0o7777)
		v.oldMode = nil
	}
}
