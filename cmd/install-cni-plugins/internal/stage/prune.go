package stage

import (
	"context"
	"slices"
)

// prune takes back the names of ours that the payload does not carry any more.
func (r *run) prune(ctx context.Context) []Result {
	if r.store == nil {
		return nil
	}

	var results []Result

	u := &undoer{dst: r.dst, store: r.store, report: r.report, dryRun: r.DryRun}
	entries := r.store.entries()

	for _, name := range r.prunable() {
		result, settled := u.undo(ctx, name, entries[name])

		if settled {
			result.Reason = "no longer carried"

			if !r.DryRun {
				delete(entries, name)
			}
		} else {
			result.Reason = "no longer carried, but " + result.Reason
		}

		results = append(results, result)
	}

	return results
}

// prunable lists the recorded names that an older payload of the same upstream module brought and
// that this one has not. A payload without a manifest says nothing about what it should carry.
func (r *run) prunable() []string {
	if r.store == nil || !r.src.verified || r.rules.inPlace || r.Update == Missing {
		return nil
	}

	var names []string

	for name, e := range r.store.record.Directories[r.store.key] {
		c := e.Done
		if c == nil {
			c = e.Pending
		}

		if _, carried := r.src.lookup(name); !carried && r.selects(name) && c.Module == r.src.manifest.Pin.Module {
			names = append(names, name)
		}
	}

	slices.Sort(names)

	return names
}
