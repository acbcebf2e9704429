package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

// InstallOptions say what to stage, where, and what may be replaced.
type InstallOptions struct {
	Source, Dest string
	// StateDir is where the record of what was written is kept.
	StateDir string
	Selection
	Update Update
	// Distro is the node's distribution; the zero value owns no names.
	Distro distro.Distro
	// TakeOver replaces platform-owned names too. Exact takes no other build of the same pin for
	// right.
	TakeOver, Exact bool
	// Create makes the destination where it is missing.
	Create bool
	// DryRun reports what would be done.
	DryRun bool
	// LockWait is how long to wait for another installer; zero means LockWait's default.
	LockWait time.Duration

	// arch is the node's architecture; empty is this program's own. workers is how many plugins are
	// written at once. Both are for tests, as is system.
	arch    string
	workers int
	system  system
}

// run is one installation.
type run struct {
	InstallOptions
	sys *system
	src *source
	dst *directory
	// store is nil where there is no state directory to work with.
	store *store
	// damaged says why the state directory's record cannot be used, where that is the reason for
	// having no store: then nothing is replaced, because it could not be kept.
	damaged error
	rules   rules
	report  *Report
	// written maps digests to the name that this run last wrote one under.
	written sync.Map
}

// Install stages a payload. Failures of single plugins and of the node are in the report; the error
// is for a run that was interrupted.
func Install(ctx context.Context, o InstallOptions) (*Report, error) {
	r := &run{InstallOptions: o, sys: &o.system, report: newReport("install")}
	r.report.Source, r.report.Dest, r.report.DryRun = o.Source, o.Dest, o.DryRun

	if r.arch == "" {
		r.arch = runtime.GOARCH
	}

	if r.workers == 0 {
		r.workers = defaultWorkers()
	}

	if r.LockWait == 0 {
		r.LockWait = LockWait
	}

	err := r.install(ctx)
	r.report.finish()

	return r.report, err
}

func (r *run) install(ctx context.Context) error {
	src, err := r.sys.openSource(r.Source)
	if err != nil {
		r.withoutSource(err)

		return nil
	}

	defer src.dir.close()

	r.src = src
	r.report.Verified, r.report.Pin = src.verified, src.manifest.Pin.Version

	plugins := r.choose()

	if r.dst, err = r.openDest(); err != nil {
		r.failAll(plugins, r.explain("", err))

		return nil
	}
	defer r.dst.close()

	if err := r.setRules(); err != nil {
		r.failAll(plugins, sentence(err))

		return nil
	}

	if !r.rules.inPlace {
		r.report.Notes = append(r.report.Notes, src.notes...)
	}

	if store, err := r.sys.openStore(r.StateDir, r.dst); err != nil {
		r.withoutRecord(err)
	} else {
		r.store = store
		defer store.close()
	}

	verdicts := r.judgeAll(ctx, plugins)

	if r.DryRun {
		r.report.Plugins = append(r.report.Plugins, r.prune(ctx)...)
	} else if !r.rules.inPlace {
		err = r.carryOut(ctx, verdicts)
	}

	if err == nil && !r.DryRun {
		r.probe(ctx, verdicts)
	}

	if err == nil {
		err = ctx.Err()
	}

	if err != nil {
		for _, i := range pending(verdicts) {
			verdicts[i] = verdicts[i].fail(sentence(err))
		}
	}

	r.tell(verdicts)

	return err
}

// tell puts what became of the plugins into the report.
func (r *run) tell(verdicts []verdict) {
	var hiding []string

	for _, v := range verdicts {
		result := v.result
		result.changed = result.changed || v.write

		if !r.src.verified && result.Action != Failed && result.Action != Left {
			result.Reason = "unverified"
		}

		if _, baked := r.rules.baked.Lookup(result.Name); baked && result.changed && result.Action == Replaced {
			hiding = append(hiding, result.Name)
		}

		r.report.Plugins = append(r.report.Plugins, result)
	}

	if len(hiding) > 0 && r.dst.onOverlay() {
		r.report.note(fmt.Sprintf("%s is an overlay: what is staged there hides these plugins of the node image, also of the next one: %s",
			r.Dest, strings.Join(hiding, " ")))
	}
}

// withoutRecord goes on without a state directory, and says so.
func (r *run) withoutRecord(err error) {
	r.store = nil

	if damaged, ok := errors.AsType[*damagedError](err); ok {
		r.damaged = damaged
	}

	if !r.rules.inPlace {
		r.report.note(fmt.Sprintf("no record is kept, so uninstall will not know what was written: %s", sentence(err)))
	}
}

func (r *run) ours(name, digest string) bool {
	return r.store != nil && r.store.record.Directories[r.store.key][name].holds(digest) != nil
}

// withoutSource reports why there is nothing to stage.
func (r *run) withoutSource(err error) {
	var (
		missing *missingSourceError
		bad     *badManifestError
	)

	switch {
	case errors.As(err, &missing):
		r.report.SkippedStaging = missing.Error()
	case errors.As(err, &bad):
		r.src = &source{plugins: bad.plugins}
		r.report.Errors = append(r.report.Errors, bad.Error())
		r.failAll(r.choose(), "its payload's manifest cannot be used")
	default:
		r.report.Errors = append(r.report.Errors, sentence(err))
	}
}

// choose returns the plugins that are wanted, and reports the others.
func (r *run) choose() []payload.Plugin {
	var chosen []payload.Plugin

	for _, p := range r.src.plugins {
		if r.selects(p.Name) {
			chosen = append(chosen, p)
		} else {
			r.report.Plugins = append(r.report.Plugins, Result{Name: p.Name, Action: Skipped})
		}
	}

	for _, name := range r.Only {
		if _, ok := r.src.lookup(name); !ok && r.selects(name) {
			r.report.Plugins = append(r.report.Plugins, Result{Name: name, Action: Failed, Reason: "the payload does not carry it"})
		}
	}

	return chosen
}

// setRules gathers what decides about the plugins.
func (r *run) setRules() error {
	a, err := r.src.dir.stat()
	if err != nil {
		return err
	}

	b, err := r.dst.stat()
	if err != nil {
		return err
	}

	r.rules = rules{
		update: r.Update, distro: r.Distro, takeOver: r.TakeOver, exact: r.Exact,
		inPlace: a.Dev == b.Dev && a.Ino == b.Ino,
		payload: r.src.manifest,
		ours:    r.ours,
	}

	r.rules.baked, err = payload.ReadManifest(r.dst.join(payload.ManifestName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.report.note(fmt.Sprintf("the manifest beside the files is no help: %v", err))
	}

	return nil
}

func (r *run) failAll(plugins []payload.Plugin, reason string) {
	for _, p := range plugins {
		r.report.Plugins = append(r.report.Plugins, Result{Name: p.Name, Action: Failed, Reason: reason})
	}
}

func (r *run) judgeAll(ctx context.Context, plugins []payload.Plugin) []verdict {
	verdicts := make([]verdict, len(plugins))

	each(r.workers, len(plugins), func(i int) { verdicts[i] = r.judge(ctx, plugins[i]) })

	return verdicts
}

func (r *run) judge(ctx context.Context, p payload.Plugin) verdict {
	digest, err := r.src.digestOf(ctx, p)
	if err != nil {
		return verdict{plugin: p, result: Result{Name: p.Name}}.fail(sentence(err))
	}

	p.Digest = digest

	t, err := r.dst.look(ctx, p.Name)
	if err != nil {
		return verdict{plugin: p, result: Result{Name: p.Name}}.fail(r.explain(p.Name, err))
	}

	v := r.rules.judge(p, t)
	if v.write && t.kind != absent && r.damaged != nil {
		return v.fail("what it would replace cannot be kept: " + r.damaged.Error())
	}

	return v
}
