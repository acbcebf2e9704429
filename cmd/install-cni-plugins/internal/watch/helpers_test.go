package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// node is a payload of two plugins, a bin and a state directory, and a clock.
type node struct {
	testing.TB
	source, dest, state string
	log                 buffer
	mu                  sync.Mutex
	time                time.Time
}

func newNode(t testing.TB) *node {
	t.Helper()

	n := &node{
		TB: t, source: testplugins.Payload(t, testplugins.Stripped, "static", "tuning"),
		dest: t.TempDir(), state: t.TempDir(), time: time.Now(),
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", n.log.String())
		}
	})

	return n
}

// fill puts the plugins into the bin directory.
func (n *node) fill() {
	n.Helper()

	for _, name := range []string{"static", "tuning"} {
		testplugins.Copy(n, filepath.Join(n.source, name), filepath.Join(n.dest, name))
	}
}

func (n *node) now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.time
}

func (n *node) options(edit ...func(*Options)) Options {
	o := Options{Source: n.source, Dest: n.dest, StateDir: n.state, Interval: time.Hour, Log: &n.log}
	for _, e := range edit {
		e(&o)
	}

	return o
}

// stepped is a watcher whose rounds the test makes, by the node's clock.
type stepped struct {
	*watcher
	node *node
	next time.Time
}

func (n *node) step(edit ...func(*Options)) *stepped {
	n.Helper()

	s := &stepped{node: n, watcher: newWatcher(n.options(append(edit, func(o *Options) { o.now = n.now })...))}
	n.Cleanup(s.notifier.close)

	s.look()

	return s
}

// look makes a round now.
func (s *stepped) look() {
	s.next = s.round(context.Background())
}

// wait lets time pass and makes a round.
func (s *stepped) wait(d time.Duration) {
	s.node.mu.Lock()
	s.node.time = s.node.time.Add(d)
	s.node.mu.Unlock()

	s.look()
}

// settle waits until what has just changed is read. The files' own times are real ones.
func (s *stepped) settle() {
	s.wait(10 * time.Second)
}

func (s *stepped) want(states ...string) {
	s.node.Helper()

	var got []string
	for _, p := range s.plugins {
		got = append(got, string(p.state))
	}

	equal(s.node, "states", fmt.Sprint(got), fmt.Sprint(states))
}

// metric returns a sample of what is exposed, as text.
func (w *watcher) metric(series string) string {
	for line := range strings.Lines(string(w.pages.Load().metrics)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && name+"}" == "cni_plugins_"+series {
			return value
		}

		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == "cni_plugins_"+series {
			return value
		}
	}

	return "absent"
}

func (s *stepped) wantMetric(series, want string) {
	s.node.Helper()
	equal(s.node, series, s.metric(series), want)
}

// start runs a watch for real until the test ends.
func (n *node) start(edit ...func(*Options)) *watcher {
	n.Helper()

	w := newWatcher(n.options(edit...))
	ctx, cancel := context.WithCancel(context.Background())

	var running sync.WaitGroup

	running.Go(func() { w.run(ctx) })
	n.Cleanup(func() {
		cancel()
		running.Wait()
	})

	return w
}

const untilDeadline = time.Minute

// until waits for a condition; the deadline is for one that never holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()

	for deadline := time.Now().Add(untilDeadline); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it does not hold that %s", what)
		}
	}
}

// right reports whether a file is the payload's.
func (n *node) right(name string) bool {
	want, _, err := payload.DigestFile(filepath.Join(n.source, name))
	if err != nil {
		n.Fatal(err)
	}

	got, _, err := payload.DigestFile(filepath.Join(n.dest, name))

	return err == nil && got == want
}

func (n *node) remove(names ...string) {
	n.Helper()

	for _, name := range names {
		must(n, os.Remove(filepath.Join(n.dest, name)))
	}
}

func (n *node) write(name, text string) {
	n.Helper()
	must(n, os.WriteFile(filepath.Join(n.dest, name), []byte(text), 0o755))
}

func must(t testing.TB, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, what, got, want string) {
	t.Helper()

	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.b.String()
}

// lines counts the log's lines that have all the parts.
func (b *buffer) lines(parts ...string) (count int) {
	for line := range strings.Lines(b.String()) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(line, part)
		}

		if has {
			count++
		}
	}

	return count
}

func (n *node) installNow() {
	n.Helper()

	report, err := stage.Install(context.Background(), stage.InstallOptions{
		Source: n.source, Dest: n.dest, StateDir: n.state, Update: stage.Always,
	})
	must(n, err)

	if !report.Good() {
		n.Errorf("installing: %v %v", report.Failed, report.Errors)
	}
}

// hold takes a directory's lock, as another installer does.
func hold(t testing.TB, dir string) {
	t.Helper()

	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Flock(fd, unix.LOCK_EX))
}
