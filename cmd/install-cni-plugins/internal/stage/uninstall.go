package stage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
)

// UninstallOptions say what to take back.
type UninstallOptions struct {
	// Source tells which names are ours where there is no record; it need not exist.
	Source, Dest, StateDir string
	Selection
	DryRun   bool
	LockWait time.Duration

	system system
}

// Uninstall takes back what Install wrote: created names go, replaced ones come back. What was not
// written by us, or was changed since, stays and is reported as left. An error means that the
// directory could not be worked on.
func Uninstall(ctx context.Context, o UninstallOptions) (*Report, error) {
	report := newReport("uninstall")
	report.Dest, report.DryRun = o.Dest, o.DryRun

	if o.LockWait == 0 {
		o.LockWait = LockWait
	}

	err := o.uninstall(ctx, report)
	report.finish()

	return report, err
}

func (o *UninstallOptions) uninstall(ctx context.Context, report *Report) error {
	dst, err := o.system.openDirectory(o.Dest)
	if err != nil {
		return errors.New(sentence(err))
	}
	defer dst.close()

	st, err := o.system.openStore(o.StateDir, dst)
	if err != nil {
		report.note(fmt.Sprintf("no record: %s; nothing is deleted that may have been there before us", sentence(err)))
		o.leaveAll(dst, report)

		return nil
	}
	defer st.close()

	if len(st.record.Directories[st.key]) == 0 {
		report.note(fmt.Sprintf("the record in %s knows nothing of %s%s", o.StateDir, st.key, others(st.record)))
		o.leaveAll(dst, report)
	}

	u := &undoer{dst: dst, store: st, report: report, dryRun: o.DryRun}
	if o.DryRun {
		o.undoAll(ctx, u)

		return ctx.Err()
	}

	note, err := dst.lock(ctx, o.LockWait)
	if err != nil {
		return err
	}
	defer dst.unlock()

	if note != "" {
		report.note(note)
	} else if litter, err := dst.litter(); err == nil {
		dst.sweep(litter)
	}

	return o.carryOut(ctx, u)
}

func (o *UninstallOptions) carryOut(ctx context.Context, u *undoer) error {
	note, err := u.store.begin(ctx, o.LockWait)
	if err != nil {
		return errors.New(sentence(err))
	}
	defer u.store.end()

	if note != "" {
		u.report.note(note)
	}

	if err := u.store.reconcile(ctx, u.dst); err != nil {
		return err
	}

	o.undoAll(ctx, u)

	if slices.ContainsFunc(u.report.Plugins, Result.Changes) {
		if err := u.dst.sync(); err != nil {
			u.report.Errors = append(u.report.Errors, sentence(err))
		}
	}

	// Also where there was nothing to undo: a killed run may have left things behind.
	if err := u.store.finish(); err != nil {
		u.report.Errors = append(u.report.Errors, "updating the record: "+sentence(err))
	}

	return ctx.Err()
}

func (o *UninstallOptions) undoAll(ctx context.Context, u *undoer) {
	entries := u.store.entries()

	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !o.selects(name) {
			u.report.Plugins = append(u.report.Plugins, Result{Name: name, Action: Skipped})

			continue
		}

		result, settled := u.undo(ctx, name, entries[name])
		u.report.Plugins = append(u.report.Plugins, result)

		if settled && !u.dryRun {
			delete(entries, name)
		}
	}

	if len(u.refused) > 0 {
		u.report.note(u.procedure())
	}

	if len(u.hiding) > 0 {
		u.report.note(u.shadows())
	}
}

// leaveAll reports the names of the payload that are there and cannot be told to be ours.
func (o *UninstallOptions) leaveAll(dst *directory, report *Report) {
	var plugins []payload.Plugin

	if src, err := o.system.openSource(o.Source); err == nil {
		plugins = src.plugins
		src.dir.close()
	} else if m, err := payload.ReadManifest(dst.join(payload.ManifestName)); err == nil {
		plugins = m.Plugins
	}

	for _, p := range plugins {
		if _, err := dst.lstat(p.Name); err == nil && o.selects(p.Name) {
			report.Plugins = append(report.Plugins, Result{
				Name: p.Name, Action: Left, Reason: "no record says that we wrote it", Foreign: true,
			})
		}
	}

	if len(report.Plugins) == 0 {
		report.note("nothing is undone")
	}
}

func others(r *record) string {
	if len(r.Directories) == 0 {
		return ""
	}

	return ", only of " + strings.Join(slices.Sorted(maps.Keys(r.Directories)), " and ")
}
