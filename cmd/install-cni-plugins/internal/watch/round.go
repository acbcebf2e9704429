package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// rehash is how often every file is read though nothing says that it changed. A change that moves
// neither size nor times is a rotting disk, a clock set back or the lower layer of an overlay being
// edited: rare enough for four times a day, in which the plugins are read in a fraction of a second.
const rehash = 6 * time.Hour

// round looks at the directory once, restores what is to be restored, and returns when to look again.
func (w *watcher) round(ctx context.Context) time.Time {
	w.count.verifications++

	w.observe()

	next := w.now().Add(w.Interval)

	if w.look(ctx, &next) && w.restore(ctx, &next) {
		w.look(ctx, &next) // at what restoring made of it
	}

	if ctx.Err() != nil {
		return next // half a look would be published as the whole
	}

	w.report()
	w.publish()

	return next
}

// observe renews the inotify watches, before the look, so that no change falls between the two.
func (w *watcher) observe() {
	err := w.notifier.renew()

	text := ""
	if err != nil {
		text = fmt.Sprintf("%v; looking every %s only", err, w.Interval)
	}

	w.journal.problem("inotify", text)

	w.stale = w.notifier.deleted
	if w.stale == "" {
		w.stale = w.notifier.moved
	}

	w.journal.problem("mount", w.stale)
}

// look finds out what has the wanted names, and reads what may have changed. It returns false where
// nothing can be told.
func (w *watcher) look(ctx context.Context, next *time.Time) bool {
	fd, err := w.open()
	if err == nil && w.notifier.deleted != "" {
		unix.Close(fd)

		err = errors.New("nothing can be written there any more")
	}

	if err != nil {
		w.block(err)

		return false
	}
	defer unix.Close(fd)

	if w.now().Sub(w.rehashed) >= rehash {
		w.rehashed = w.now()

		for _, p := range w.plugins {
			p.forget()
		}
	}

	var settled []string

	for _, p := range w.plugins {
		if due := p.look(fd, w.now()); due.IsZero() {
			continue
		} else if due.After(w.now()) {
			*next = earlier(*next, due)
		} else {
			settled = append(settled, p.name)
		}
	}

	if err = w.verify(ctx, fd, settled, next); err != nil {
		w.block(err)

		return false
	}

	w.blocked = ""
	w.journal.problem("verify", "")

	return true
}

// block notes that nothing can be told of the directory.
func (w *watcher) block(err error) {
	w.blocked = err.Error()
	w.count.verifyErrors.add(w.now())
	w.journal.problem("verify", w.blocked)

	for _, p := range w.plugins {
		p.state, p.reason, p.usable = stage.Unknown, w.blocked, false
		p.forget()
	}
}

// open opens the directory and learns what is wanted in it.
func (w *watcher) open() (int, error) {
	e, err := stage.Expect(stage.VerifyOptions{Source: w.Source, Dest: w.Dest, Selection: w.Selection})
	if err != nil {
		return 0, err
	}

	fd, err := unix.Open(w.Dest, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", w.Dest, err)
	}

	w.want(e)

	w.unrunnable = ""

	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_NOEXEC != 0 {
		w.unrunnable = w.Dest + " is mounted noexec"
	}

	w.journal.problem("noexec", w.unrunnable)

	return fd, nil
}

// want brings the wanted plugins up to date.
func (w *watcher) want(e *stage.Expectation) {
	w.pin, w.owned = e.Pin, 0

	var wanted []*plugin

	for _, p := range e.Plugins {
		if w.Distro.Owns(p.Name) {
			w.owned++

			continue
		}

		known := w.plugin(p.Name)
		if known == nil {
			known = &plugin{name: p.Name}
		}

		baked, _ := e.Baked.Lookup(p.Name)
		known.accept(p.Digest + " " + baked.Digest + " " + e.Baked.Pin.Version)
		wanted = append(wanted, known)
	}

	w.plugins = wanted
}

// plugin returns the wanted plugin of that name, or nil.
func (w *watcher) plugin(name string) *plugin {
	for _, p := range w.plugins {
		if p.name == name {
			return p
		}
	}

	return nil
}

// verify reads files. A verdict counts only where the file is the same after reading as before.
func (w *watcher) verify(ctx context.Context, fd int, names []string, next *time.Time) error {
	if len(names) == 0 {
		return nil
	}

	v, err := stage.Verify(ctx, stage.VerifyOptions{Source: w.Source, Dest: w.Dest, Selection: stage.Selection{Only: names}})
	if err != nil {
		return err
	}

	for _, c := range v.Plugins {
		p := w.plugin(c.Name)
		if p == nil {
			continue
		}

		if c.Digest != "" {
			w.count.hashed++
		}

		p.judge(fd, c, w.now())

		unreadable := ""
		if c.State == stage.Unknown {
			unreadable = c.Reason
		}

		w.journal.problem("verify "+c.Name, unreadable)

		if due := p.due(w.now()); !due.IsZero() {
			*next = earlier(*next, due)
		}
	}

	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}

	return a
}
