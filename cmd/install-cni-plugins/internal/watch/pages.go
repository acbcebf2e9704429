package watch

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// pages are the bodies of the answers, written after each look: answering takes no part in it.
type pages struct {
	live, ready   bool
	alive, status []byte
	metrics       []byte
	// until is when the look that they tell of is too old to be believed.
	until time.Time
}

// publish writes the pages anew.
func (w *watcher) publish() {
	p := &pages{live: w.stale == "", until: w.now().Add(2*w.Interval + time.Minute)}
	p.alive = []byte("ok\n")

	if !p.live {
		p.alive = []byte(w.stale + "\n")
	}

	unready := w.unready()
	p.ready = len(unready) == 0
	p.status = []byte("ok\n")

	if !p.ready {
		p.status = []byte(strings.Join(unready, "\n") + "\n")
	}

	p.metrics = w.metrics(p)
	w.pages.Store(p)
}

// unready says what keeps pods from being attached.
func (w *watcher) unready() []string {
	var lines, missing, unusable []string

	for _, text := range []string{w.blocked, w.stale, w.unrunnable} {
		if text != "" {
			lines = append(lines, text)
		}
	}

	for _, p := range w.plugins {
		switch {
		case w.blocked != "":
		case p.state == stage.NotThere:
			missing = append(missing, p.name)
		case p.state == stage.NotExecutable || !p.usable:
			unusable = append(unusable, p.name)
		}
	}

	if len(missing) > 0 {
		lines = append(lines, "missing: "+strings.Join(missing, " "))
	}

	if len(unusable) > 0 {
		lines = append(lines, "not executable: "+strings.Join(unusable, " "))
	}

	return lines
}

// report logs what is other than when it was last told of.
func (w *watcher) report() {
	for _, p := range w.plugins {
		switch before := p.told; {
		case p.state == before, p.state == stage.Unknown:
			continue
		case p.state == stage.NotThere:
			w.journal.warn("missing", "plugin", p.name)
		case p.state != stage.Right:
			w.journal.warn("altered", "plugin", p.name, "digest", stage.Short(p.digest), "want", stage.Short(p.required), "reason", p.reason)
		case before != "":
			w.journal.info("right", "plugin", p.name)
		}

		p.told = p.state
	}

	w.forgetSolved()

	switch text := strings.Join(w.unready(), "; "); {
	case text == w.told:
	case text == "":
		w.journal.info("ready", "pin", w.pin, "wanted", strconv.Itoa(len(w.plugins)))
		w.told = text
	default:
		w.journal.warn("not ready", "reason", text)
		w.told = text
	}
}

// forgetSolved ends the problems with restoring that somebody else has solved, so that the next will be told
// of again.
func (w *watcher) forgetSolved() {
	all := true

	for _, p := range w.plugins {
		if p.state == stage.Right {
			w.journal.problem("restore "+p.name, "")
		}

		all = all && p.state == stage.Right
	}

	if all {
		w.journal.problem("restore", "")
	}
}

// respond returns the answer to a request; status refuses it where it is not 0.
func (w *watcher) respond(r request, status int) []byte {
	p := w.pages.Load()
	kind := "text/plain; charset=utf-8"
	body, good := []byte(nil), true

	switch r.path {
	case "/livez":
		body, good = p.alive, p.live
	case "/readyz":
		body, good = p.status, p.ready

		if w.now().After(p.until) {
			body, good = []byte("the bin directory has not been looked at for a long time; a disk may hang\n"), false
		}
	case "/metrics":
		body = p.metrics
		kind = "text/plain; version=0.0.4; charset=utf-8"
	}

	switch {
	case status != 0:
	case r.method != "GET" && r.method != "HEAD":
		status = 405
	case body == nil:
		status = 404
	case !good:
		status = 503
	default:
		status = 200
	}

	if status != 200 && status != 503 {
		body = []byte(reasons[status] + "\n")
		kind = "text/plain; charset=utf-8"
	}

	var out bytes.Buffer

	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n",
		status, reasons[status], w.now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"), kind, len(body))

	if status == 405 {
		out.WriteString("Allow: GET, HEAD\r\n")
	}

	out.WriteString("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n")

	if r.method != "HEAD" {
		out.Write(body)
	}

	return out.Bytes()
}

var reasons = map[int]string{
	200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
	431: "Request Header Fields Too Large", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
}
