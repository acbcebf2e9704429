package stage

import (
	"context"
	"errors"
	"fmt"
)

// pending lists the verdicts that ask for a write.
func pending(verdicts []verdict) []int {
	var indexes []int

	for i, v := range verdicts {
		if v.write {
			indexes = append(indexes, i)
		}
	}

	return indexes
}

// carryOut writes what the verdicts ask for. Where there is nothing to do it does not even take the
// lock, and leaves no trace of any kind.
func (r *run) carryOut(ctx context.Context, verdicts []verdict) error {
	litter, err := r.dst.litter()
	if err != nil {
		r.report.note("looking for temporary files of killed installers: " + sentence(err))
	}

	if len(pending(verdicts)) == 0 && len(litter) == 0 && len(r.prunable()) == 0 && (r.store == nil || !r.store.unsettled()) {
		return nil
	}

	note, err := r.dst.lock(ctx, r.LockWait)
	if err != nil {
		return err
	}
	defer r.dst.unlock()

	swept := 0

	if note != "" {
		r.report.note(note)
	} else if swept, err = r.dst.sweep(litter); err != nil {
		r.report.note("removing temporary files of a killed installer: " + sentence(err))
	}

	// Whoever held the lock before may have done the work.
	r.rejudge(ctx, verdicts)

	for round := range attempts {
		if !r.writeAll(ctx, verdicts, round == 0) {
			break
		}
	}

	for _, i := range pending(verdicts) {
		verdicts[i] = verdicts[i].fail(errMoved.Error() + ", again and again")
	}

	// The record is brought up to date also when the run is being interrupted.
	r.conclude(context.WithoutCancel(ctx), verdicts, swept > 0)

	return nil
}

func (r *run) rejudge(ctx context.Context, verdicts []verdict) {
	todo := pending(verdicts)

	each(r.workers, len(todo), func(i int) {
		v := &verdicts[todo[i]]
		*v = r.judge(ctx, v.plugin)
	})
}

// writeAll writes the pending plugins and reports whether some are pending again, because another
// writer changed them in the meantime.
func (r *run) writeAll(ctx context.Context, verdicts []verdict, first bool) (again bool) {
	todo := pending(verdicts)
	if len(todo) == 0 {
		return false
	}

	if r.store != nil {
		if err := r.intend(ctx, verdicts, todo, first); unusable(err) {
			r.withoutRecord(err)
		} else if err != nil {
			r.withoutUndo(verdicts, err)
		}

		todo = pending(verdicts)
	}

	each(r.workers, len(todo), func(i int) {
		v := &verdicts[todo[i]]

		switch err := r.write(ctx, v); {
		case err == nil:
			v.write, v.made, v.result.changed = false, true, true
			r.written.Store(v.plugin.Digest, v.plugin.Name)
		case errors.Is(err, errMoved):
			// The change stays, to be settled as one that was not made.
			c := v.change
			*v = r.judge(ctx, v.plugin)
			v.change = c
		default:
			r.putModeBack(v)
			*v = v.fail(r.explain(v.plugin.Name, err))
		}
	})

	return len(pending(verdicts)) > 0
}

// withoutUndo stages what needs no undoing where the state directory is in trouble: what cannot be
// recorded is not replaced.
func (r *run) withoutUndo(verdicts []verdict, err error) {
	r.report.Errors = append(r.report.Errors, "updating the record: "+sentence(err))

	for _, i := range pending(verdicts) {
		v := &verdicts[i]
		v.change = nil

		if v.target.kind != absent {
			r.putModeBack(v)
			*v = v.fail("what it would replace cannot be kept: " + sentence(err))
		}
	}
}

func (r *run) write(ctx context.Context, v *verdict) error {
	from, err := r.src.open(v.plugin, r.arch)
	if err != nil {
		return err
	}
	defer from.close()

	twin := r.twin(v.plugin.Digest)
	if twin != nil {
		defer twin.close()
	}

	return r.dst.replace(ctx, v.plugin.Name, v.target, content{from, twin}, v.plugin.Digest, pluginAttributes())
}

// twin opens what this run wrote with a digest under another name: several plugins may be one program.
func (r *run) twin(digest string) *file {
	name, ok := r.written.Load(digest)
	if !ok {
		return nil
	}

	f, _, err := r.dst.open(name.(string))
	if err != nil {
		return nil // copying does without
	}

	return f
}

// conclude prunes, makes the renames durable and then settles the record.
func (r *run) conclude(ctx context.Context, verdicts []verdict, changed bool) {
	var err error

	if r.store != nil {
		var note string

		if note, err = r.store.begin(ctx, r.LockWait); note != "" {
			r.report.note(note)
		}

		defer r.store.end()
	}

	for _, v := range verdicts {
		changed = changed || v.made
	}

	if err == nil {
		for _, result := range r.prune(ctx) {
			r.report.Plugins = append(r.report.Plugins, result)
			changed = changed || result.changed
		}
	}

	if changed {
		if err := r.dst.sync(); err != nil {
			r.report.Errors = append(r.report.Errors, r.explain("", err))
		}
	}

	if r.store != nil && err == nil {
		err = r.settle(ctx, verdicts)
	}

	if err != nil {
		r.report.Errors = append(r.report.Errors, fmt.Sprintf("updating the record: %s; the next run settles it", sentence(err)))
	}
}

func (r *run) settle(ctx context.Context, verdicts []verdict) error {
	for _, v := range verdicts {
		if v.change != nil {
			r.store.settle(v.plugin.Name, v.change, v.made)
		}
	}

	if err := r.store.reconcile(ctx, r.dst); err != nil {
		return err
	}

	return r.store.finish()
}
