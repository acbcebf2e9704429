package watch

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// counters only grow.
type counters struct {
	verifications, hashed            int
	restoredMissing, restoredAltered int
	verifyErrors, restoreErrors      errorCounter
}

// errorCounter counts errors and remembers when the last one was.
type errorCounter struct {
	count int
	last  time.Time
}

func (e *errorCounter) add(now time.Time) {
	e.count++
	e.last = now
}

// tally is how many plugins are in which state.
type tally struct {
	wanted, missing, altered, unknown, waiting int
}

func (w *watcher) tally() tally {
	t := tally{wanted: len(w.plugins)}

	for _, p := range w.plugins {
		switch {
		case p.state == stage.NotThere:
			t.missing++

			if missingPolicy.due(p.missing).After(w.now()) {
				t.waiting++
			}
		case p.wrong():
			t.altered++

			if w.RestoreAltered && alteredPolicy.due(p.altered).After(w.now()) {
				t.waiting++
			}
		case p.state != stage.Right:
			t.unknown++
		}
	}

	return t
}

// metrics writes the text that Prometheus reads.
func (w *watcher) metrics(p *pages) []byte {
	m, t := &exposition{}, w.tally()

	m.metric("build_info", "gauge", "The version of this program, the Go it was built with, and the upstream release of the plugins it keeps.")
	m.value(labels("version", w.Version, "goversion", runtime.Version(), "pin", w.pin), 1)
	m.single("ready", "gauge", "Whether every wanted plugin is there and can be executed.", truth(p.ready))
	m.single("wanted", "gauge", "Plugins that should be in the bin directory.", float64(t.wanted))
	m.single("platform_owned", "gauge", "Plugins of the payload that are left to the node's distribution.", float64(w.owned))
	m.single("missing", "gauge", "Wanted plugins that are not there.", float64(t.missing))
	m.single("altered", "gauge", "Wanted plugins that are another file, or cannot be executed.", float64(t.altered))
	m.single("unknown", "gauge", "Wanted plugins of which it cannot be told, or not yet.", float64(t.unknown))
	m.single("backing_off", "gauge", "Plugins that are restored later, because restoring them did not last.", float64(t.waiting))

	m.metric("state", "gauge", "What each wanted plugin is: right, missing, altered, not executable or unknown.")

	for _, plugin := range w.plugins {
		state := plugin.state
		if state == "" {
			state = stage.Unknown
		}

		m.value(labels("plugin", plugin.name, "state", string(state)), 1)
	}

	m.metric("restored_total", "counter", "Plugins that were restored.")
	m.value(labels("reason", "missing"), float64(w.count.restoredMissing))
	m.value(labels("reason", "altered"), float64(w.count.restoredAltered))

	m.metric("errors_total", "counter", "Looks and restorations that failed.")
	m.value(labels("operation", "verify"), float64(w.count.verifyErrors.count))
	m.value(labels("operation", "restore"), float64(w.count.restoreErrors.count))

	m.metric("last_error_timestamp_seconds", "gauge", "When one last failed; 0 is never.")
	m.value(labels("operation", "verify"), seconds(w.count.verifyErrors.last))
	m.value(labels("operation", "restore"), seconds(w.count.restoreErrors.last))

	m.single("verifications_total", "counter", "Looks at the bin directory.", float64(w.count.verifications))
	m.single("hashed_files_total", "counter", "Files that were read, because they may have changed or had not been for long.", float64(w.count.hashed))

	looked := time.Time{}
	if w.count.verifications > 0 {
		looked = w.now()
	}

	m.single("last_verification_timestamp_seconds", "gauge", "When the bin directory was last looked at.", seconds(looked))
	m.single("inotify_active", "gauge", "Whether changes are noticed at once, and not only at the next interval.", truth(w.notifier.active()))
	m.single("inotify_overflows_total", "counter", "Times that events were lost because there were too many.", float64(w.notifier.overflows.Load()))
	m.single("stale_mount", "gauge", "Whether a mount shows a directory that the node no longer has there.", truth(w.stale != ""))

	return m.Bytes()
}

// exposition is text in Prometheus' format, version 0.0.4.
type exposition struct {
	bytes.Buffer
	name string
}

func (m *exposition) metric(name, kind, help string) {
	m.name = "cni_plugins_" + name
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", m.name, help, m.name, kind)
}

func (m *exposition) value(labels string, v float64) {
	fmt.Fprintf(m, "%s%s %g\n", m.name, labels, v)
}

func (m *exposition) single(name, kind, help string, v float64) {
	m.metric(name, kind, help)
	m.value("", v)
}

func labels(pairs ...string) string {
	var parts []string

	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+`="`+escape(pairs[i+1])+`"`)
	}

	return "{" + strings.Join(parts, ",") + "}"
}

func truth(b bool) float64 {
	if b {
		return 1
	}

	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}

	return float64(t.UnixMilli()) / 1000
}

// escape writes a label's value as the format wants it.
func escape(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, `"`, `\"`)

	return strings.ReplaceAll(s, "\n", `\n`)
}
