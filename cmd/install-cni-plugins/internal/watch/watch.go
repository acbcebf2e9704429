package watch

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
	"github.com/cnibake/cnibake/profiles/distro"
)

// Bounds of the interval. Less than a second would be work without end; more than a day no safety net.
const (
	DefaultInterval = 5 * time.Minute
	MinInterval     = time.Second
	MaxInterval     = 24 * time.Hour
)

const (
	// debounce is how long after a change the directory is looked at: whoever replaces a file by
	// deleting and writing it shall have the time to, and many changes shall be one look.
	debounce = 500 * time.Millisecond
	// grace is how long an operation that is being interrupted may take to tidy up. What hangs on a
	// dead disk never will.
	grace = 2 * time.Second
)

// Options say what to keep where.
type Options struct {
	Source, Dest string
	// StateDir is where the record of what was written is kept.
	StateDir string
	stage.Selection
	// Distro is the node's distribution. The names it ships are not watched: it brings them, and
	// while it is upgrading, writing one would be in its way.
	Distro distro.Distro
	// Interval is how often the directory is looked at where nothing else says that it changed.
	Interval time.Duration
	// RestoreAltered replaces files that are not the payload's, too.
	RestoreAltered bool
	// Listen is where HTTP is answered; the zero Address is nowhere.
	Listen Address
	// Version is this program's own, for the metrics.
	Version string
	// Log gets a line for every change of what is known.
	Log io.Writer

	// For tests: the clock, and what keeps inotify from working.
	now       func() time.Time
	noInotify error
}

// watcher is one directory being watched.
type watcher struct {
	Options
	journal  *journal
	notifier *notifier
	// plugins are what is known of the wanted names, in their order.
	plugins []*plugin
	// pin is the payload's upstream version, owned how many of its names are the platform's.
	pin   string
	owned int
	// blocked says why nothing can be told of the directory; empty where it can. unrunnable says
	// why nothing in it can be executed. stale names a mount that shows a directory the node no
	// longer has at that place.
	blocked, unrunnable, stale string
	// told is the last reason for not being ready that the log told of; a watch begins as not ready.
	told string
	// rehashed is when every file was last due to be read.
	rehashed time.Time
	count    counters
	// pages are what HTTP answers with, as of the last look.
	pages atomic.Pointer[pages]
}

func newWatcher(o Options) *watcher {
	if o.now == nil {
		o.now = time.Now
	}

	w := &watcher{
		Options: o,
		journal: newJournal(o.Log, o.now), notifier: newNotifier(o.Dest, o.noInotify),
		blocked: "not looked at yet", told: "not looked at yet",
	}
	w.publish()

	return w
}

// Run watches until ctx is done.
func Run(ctx context.Context, o Options) {
	newWatcher(o).run(ctx)
}

func (w *watcher) run(ctx context.Context) {
	w.journal.info("watching", "source", w.Source, "dest", w.Dest, "interval", w.Interval.String(), "version", w.Version)

	if w.Listen.set() {
		go w.serve(ctx)
	}

	done := make(chan struct{})

	go func() {
		defer close(done)
		w.loop(ctx)
	}()

	<-ctx.Done()

	select {
	case <-done:
	case <-time.After(grace):
	}
}

func (w *watcher) loop(ctx context.Context) {
	defer w.notifier.close()

	for {
		next := w.round(ctx)

		select {
		case <-ctx.Done():
			return
		case <-time.After(max(next.Sub(w.now()), debounce)):
		case <-w.notifier.events:
			pause(ctx, debounce)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
