package watch

import (
	"context"
	"strings"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// repair is what is done about some names.
type repair struct {
	names  []string
	update stage.Update
	policy policy
	// attempts are those of a plugin that count here.
	attempts func(*plugin) *attempts
}

// restore writes what is missing and, where that is wanted, what was altered. It reports whether
// anything was tried, and moves next to when something else may be.
func (w *watcher) restore(ctx context.Context, next *time.Time) bool {
	missing := repair{update: stage.Missing, policy: missingPolicy, attempts: func(p *plugin) *attempts { return &p.missing }}
	altered := repair{update: stage.Always, policy: alteredPolicy, attempts: func(p *plugin) *attempts { return &p.altered }}

	for _, p := range w.plugins {
		switch {
		case p.state == stage.NotThere:
			missing.add(p, w.now(), next)
		case p.wrong() && w.RestoreAltered:
			altered.add(p, w.now(), next)
		}
	}

	tried := false

	for _, r := range []repair{missing, altered} {
		if len(r.names) > 0 && ctx.Err() == nil {
			w.install(ctx, r, next)

			tried = true
		}
	}

	return tried && ctx.Err() == nil
}

func (r *repair) add(p *plugin, now time.Time, next *time.Time) {
	if due := r.policy.due(*r.attempts(p)); due.After(now) {
		*next = earlier(*next, due)
	} else {
		r.names = append(r.names, p.name)
	}
}

// install stages plugins, as the command of that name does.
func (w *watcher) install(ctx context.Context, r repair, next *time.Time) {
	report, err := stage.Install(ctx, stage.InstallOptions{
		Source: w.Source, Dest: w.Dest, StateDir: w.StateDir,
		Selection: stage.Selection{Only: r.names}, Update: r.update, Distro: w.Distro,
	})

	results := map[string]stage.Result{}

	for _, result := range report.Plugins {
		results[result.Name] = result
		w.tell(result)
	}

	if err != nil {
		return // interrupted
	}

	errors := report.Errors
	if report.SkippedStaging != "" {
		errors = append(errors, report.SkippedStaging)
	}

	w.journal.problem("restore", strings.Join(errors, "; "))
	w.journal.remark(strings.Join(report.Notes, "; "))

	now := w.now()

	if len(errors) > 0 || len(report.Failed) > 0 {
		w.count.restoreErrors.add(now)
	}

	for _, name := range r.names {
		a := r.attempts(w.plugin(name))

		switch result := results[name]; {
		case result.Changes(): // also where somebody has removed it again
			r.policy.record(a, now, false)
		case result.Action == stage.Unchanged, result.Action == stage.Left: // somebody else was faster
		default:
			r.policy.record(a, now, true)
			*next = earlier(*next, r.policy.due(*a))
		}
	}
}

// tell logs and counts what became of one plugin.
func (w *watcher) tell(r stage.Result) {
	problem := ""

	switch r.Action {
	case stage.Skipped:
		return
	case stage.Installed:
		w.count.restoredMissing++
		w.journal.info("restored", "plugin", r.Name, "reason", "missing", "digest", stage.Short(r.New))
	case stage.Replaced:
		w.count.restoredAltered++
		w.journal.info("restored", "plugin", r.Name, "reason", "altered", "digest", stage.Short(r.New), "was", stage.Short(r.Old))
	case stage.Failed:
		problem = r.Reason
	}

	w.journal.problem("restore "+r.Name, problem)
}
