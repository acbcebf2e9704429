package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// undoer takes back what was written in a bin directory.
type undoer struct {
	dst    *directory
	store  *store
	report *Report
	dryRun bool
	// refused are the names that must not be deleted through the overlay they lie on, hiding those
	// that were brought back there.
	refused, hiding []string
}

// undo takes back one name: what we created goes if it is still as we left it, what we replaced
// comes back. settled says that the record has nothing more to remember of it.
func (u *undoer) undo(ctx context.Context, name string, e entry) (result Result, settled bool) {
	result = Result{Name: name}

	t, err := u.dst.look(ctx, name)
	if err != nil {
		return failed(result, sentence(err)), false
	}

	result.Old = t.describe()

	c := e.holds(t.digest)

	switch {
	case t.kind == absent && (e.Done == nil || e.Done.Before == nil):
		result.Action, result.Reason = Removed, "it was gone already"

		return result, true
	case t.kind == absent:
		c = e.Done
	case e.wasBefore(t):
		result.Action, result.New, result.Reason = Restored, t.describe(), "it was there already"

		return result, true
	case c == nil:
		result.Action, result.Reason = Left, "changed since we wrote it"

		return result, false
	}

	if c.Before != nil {
		err = u.restore(ctx, name, t, c.Before)
		result.Action, result.New = Restored, c.Before.describe()
	} else if refusal := u.refuse(name); refusal != "" {
		result.Action, result.Reason = Left, refusal
		u.refused = append(u.refused, name)

		return result, false
	} else {
		err = u.remove(name, t)
		result.Action = Removed
	}

	if err != nil {
		result.New = ""

		return failed(result, sentence(err)), false
	}

	if result.Action == Restored && u.refuse(name) != "" {
		u.hiding = append(u.hiding, name)
	}

	result.changed = true

	return result, true
}

func failed(r Result, reason string) Result {
	r.Action, r.Reason = Failed, reason

	return r
}

// wasBefore reports whether a target is what we replaced: an undo that was killed after its rename
// leaves that, and so does somebody who brought it back.
func (e entry) wasBefore(t target) bool {
	for _, c := range []*change{e.Pending, e.Done} {
		if c == nil || c.Before == nil || !c.Before.matches(t) {
			continue
		}

		// We may have replaced a file for its mode only; then it is the mode that tells.
		if c.Before.Digest != c.Digest || c.Before.Mode == t.stat.Mode&0o7777 {
			return true
		}
	}

	return false
}

// refuse says why a name must not be deleted, or nothing.
func (u *undoer) refuse(name string) string {
	if !u.dst.onOverlay() {
		return ""
	}

	switch holds, known := u.dst.lowerHolds(name); {
	case !known:
		return fmt.Sprintf("%s is an overlay whose lower layer may hold %s, and deleting it here would hide that one for good", u.dst.path, name)
	case holds:
		return fmt.Sprintf("the overlay's lower layer holds %s, and deleting it here would hide that one for good", name)
	default:
		return ""
	}
}

// procedure says how to get rid of what was refused.
func (u *undoer) procedure() string {
	where := "the overlay's upper directory"
	if o, ok := u.dst.overlayOf(); ok && o.upper != "" {
		where = filepath.Join(o.upper, o.inside) + " on the node, " + where
	}

	return fmt.Sprintf("to take out %s: remove these entries from %s, not through the mount, and reboot; "+
		"install-cni-plugins unshadow --upper DIR does it for what hides a baked plugin", strings.Join(u.refused, " "), where)
}

// shadows says what bringing back files on an overlay leaves there: it has the bytes that were there
// before, but not the place, which was the lower layer.
func (u *undoer) shadows() string {
	return fmt.Sprintf("%s is an overlay: what was restored there hides what the node image may hold under these names, also in the next image: %s; "+
		"install-cni-plugins unshadow --upper DIR finds what hides a baked plugin", u.dst.path, strings.Join(u.hiding, " "))
}

func (u *undoer) remove(name string, was target) error {
	if u.dryRun {
		return nil
	}

	if same, err := was.unchanged(u.dst, name); err != nil {
		return err
	} else if !same {
		return errMoved
	}

	return u.dst.unlink(name)
}

func (u *undoer) restore(ctx context.Context, name string, was target, b *before) error {
	if b.Link != "" {
		if u.dryRun {
			return nil
		}

		tmp := temporaryName()
		if err := u.dst.symlink(b.Link, tmp); err != nil {
			return relabel(err, u.dst.join(name))
		}

		err := u.dst.publish(tmp, name, was)
		if err != nil {
			u.dst.unlink(tmp)
		}

		return err
	}

	backups, err := u.store.backups()
	if err != nil {
		return fmt.Errorf("there is no backup of what it replaced: %s", sentence(err))
	}
	defer backups.close()

	from, _, err := backups.open(backupName(b.Digest))
	if err != nil {
		return fmt.Errorf("there is no backup of what it replaced: %s", sentence(err))
	}
	defer from.close()

	if u.dryRun {
		return nil
	}

	attr := attributes{mode: b.Mode, uid: int(b.UID), gid: int(b.GID)}

	err = u.dst.replace(ctx, name, was, content{file: from}, b.Digest, attr)
	if errors.Is(err, unix.EPERM) {
		// Without the capability to give files away the content matters more than its owner, but
		// a set-user-ID bit must not change whose it is.
		attr = attributes{mode: b.Mode & 0o777, uid: -1, gid: -1}
		err = u.dst.replace(ctx, name, was, content{file: from}, b.Digest, attr)
	}

	return err
}
