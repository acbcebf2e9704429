package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

func (w *watcher) number(series string) int {
	n, err := strconv.ParseFloat(w.metric(series), 64)
	if err != nil {
		return -1
	}

	return int(n)
}

// removeAll deletes a directory in which a watcher may just be restoring.
func removeAll(t testing.TB, dir string) {
	t.Helper()
	until(t, dir+" is deleted", func() bool { return os.RemoveAll(dir) == nil })
}

// With an interval of an hour, what happens within the test's minute is inotify's doing.
func TestInotifyRestores(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	w := n.start()
	until(t, "the directory is filled", func() bool { return n.right("static") && n.right("tuning") })

	// However it went.
	for _, remove := range []func(){
		func() { n.remove("static") },
		func() { must(t, os.Rename(filepath.Join(n.dest, "static"), filepath.Join(n.dest, "elsewhere"))) },
		func() { removeAll(t, n.dest); must(t, os.Mkdir(n.dest, 0o755)) },
		func() { must(t, os.Rename(n.dest, n.dest+".old")); must(t, os.Mkdir(n.dest, 0o755)) },
	} {
		remove()
		until(t, "static is restored", func() bool { return n.right("static") && n.right("tuning") })
	}

	n.write("static", "altered")
	until(t, "the altered file is seen", func() bool { return w.metric("altered") == "1" })
	must(t, os.Remove(filepath.Join(n.dest, "static")))
	until(t, "all is right", func() bool { return w.metric(`state{plugin="static",state="right"}`) == "1" })
	equal(t, "inotify_active", w.metric("inotify_active"), "1")
}

// A directory on the way is exchanged: nothing happens in the one that was watched.
func TestInotifyOnTheWay(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	base := n.dest
	n.dest = filepath.Join(base, "current/opt/bin")

	versions := []string{filepath.Join(base, "v1"), filepath.Join(base, "v2")}
	for _, v := range versions {
		must(t, os.MkdirAll(filepath.Join(v, "opt/bin"), 0o755))
	}

	must(t, os.Symlink("v1", filepath.Join(base, "current")))
	n.start()
	until(t, "v1 is filled", func() bool { return n.right("static") && n.right("tuning") })

	must(t, os.Symlink("v2", filepath.Join(base, "next")))
	must(t, os.Rename(filepath.Join(base, "next"), filepath.Join(base, "current")))
	until(t, "v2 is filled", func() bool { return n.right("static") && n.right("tuning") })

	removeAll(t, filepath.Join(base, "v2/opt"))
	must(t, os.MkdirAll(n.dest, 0o755))
	until(t, "v2 is filled again", func() bool { return n.right("static") && n.right("tuning") })
}

func TestWithoutInotify(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	w := n.start(func(o *Options) { o.noInotify, o.Interval = errors.New("no inotify here"), MinInterval })
	until(t, "the directory is filled", func() bool { return n.right("static") && n.right("tuning") })

	n.remove("static")
	until(t, "static is restored", func() bool { return n.right("static") })
	until(t, "it was looked at often", func() bool { return w.number("verifications_total") > 5 })
	equal(t, "inotify_active", w.metric("inotify_active"), "0")

	if n.log.lines("no inotify here; looking every 1s only") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}
}

// rest waits until nothing has been done for a while.
func (w *watcher) rest(t testing.TB) (looks, read int) {
	t.Helper()

	since := time.Now()

	until(t, "it comes to rest", func() bool {
		l, r := w.number("verifications_total"), w.number("hashed_files_total")
		if l != looks || r != read {
			looks, read, since = l, r, time.Now()
		}

		return looks > 0 && time.Since(since) > 3*time.Second
	})

	return looks, read
}

// At rest nothing at all is done, and being used is no change.
func TestRestDoesNothing(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	w := n.start()
	until(t, "all is right", func() bool { return w.metric("ready") == "1" && w.metric("unknown") == "0" })

	looks, read := w.rest(t)

	for range 100 {
		if !n.right("static") {
			t.Error("static is not right")
		}

		_, _ = payload.Probe(t.Context(), filepath.Join(n.dest, "tuning"))
	}

	looksAfter, readAfter := w.rest(t)
	equal(t, "looks", fmt.Sprint(looksAfter), fmt.Sprint(looks))
	equal(t, "files read", fmt.Sprint(readAfter), fmt.Sprint(read))
}

// Ten thousand changes are a few looks, and what was lost in between is found.
func TestStorm(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	w := n.start()
	until(t, "all is right", func() bool { return w.metric("unknown") == "0" && w.metric("ready") == "1" })

	looks, hashed := w.number("verifications_total"), w.number("hashed_files_total")
	began := time.Now()

	for i := range 10000 {
		n.write("foreign", "")
		n.write("static", "in a storm")
		n.remove("foreign")

		if i == 5000 {
			n.remove("tuning")
		}
	}

	until(t, "tuning is restored", func() bool { return n.right("tuning") })
	until(t, "static is judged", func() bool { return w.metric(`state{plugin="static",state="altered"}`) == "1" })

	allowed := int(time.Since(began)/debounce) + 2
	if got := w.number("verifications_total") - looks; got > allowed {
		t.Errorf("%d looks, more than the %d that debouncing leaves", got, allowed)
	}

	if got := w.number("hashed_files_total") - hashed; got > 10 {
		t.Errorf("%d files were read", got)
	}
}

// encode makes an event as the kernel writes it.
func encode(wd int32, mask uint32, name string) []byte {
	padded := make([]byte, (len(name)+16)/16*16)
	copy(padded, name)

	data := binary.NativeEndian.AppendUint32(nil, uint32(wd))
	data = binary.NativeEndian.AppendUint32(data, mask)
	data = append(data, 0, 0, 0, 0)
	data = binary.NativeEndian.AppendUint32(data, uint32(len(padded)))

	return append(data, padded...)
}

// What matters among the events. Temporaries do not, or a restoration that fails would lead to the next.
func TestEvents(t *testing.T) {
	t.Parallel()

	const parent, bin = 1, 2

	for what, c := range map[string]struct {
		event    []byte
		relevant bool
	}{
		"a plugin":        {encode(bin, unix.IN_DELETE, "static"), true},
		"the manifest":    {encode(bin, unix.IN_MOVED_TO, ".cni-plugins.json"), true},
		"its mode":        {encode(bin, unix.IN_ATTRIB, ""), true},
		"a temporary":     {encode(bin, unix.IN_CREATE, ".cni-plugins-tmp-0123456789abcdef"), false},
		"no plugin":       {encode(bin, unix.IN_CREATE, "README"), false},
		"the next":        {encode(parent, unix.IN_CREATE, "bin"), true},
		"not the next":    {encode(parent, unix.IN_CREATE, "static"), false},
		"another's":       {encode(7, unix.IN_DELETE, "static"), false},
		"overflow":        {encode(-1, unix.IN_Q_OVERFLOW, ""), true},
		"unmounted":       {encode(bin, unix.IN_UNMOUNT, ""), true},
		"deleted":         {encode(parent, unix.IN_DELETE_SELF, ""), true},
		"no longer there": {encode(bin, unix.IN_IGNORED, ""), true},
	} {
		n := newNotifier("/parent/bin", nil)
		q := &queue{
			way:   []step{{path: "/parent", next: "bin"}, {path: "/parent/bin"}},
			steps: map[int32][]int{parent: {0}, bin: {1}}, moved: map[int]bool{},
		}

		if got := n.digest(q, c.event); got != c.relevant {
			t.Errorf("%s: relevant is %t", what, got)
		}

		equal(t, what+": overflows", fmt.Sprint(n.overflows.Load() == 1), fmt.Sprint(what == "overflow"))
		equal(t, what+": broken", fmt.Sprint(q.broken.Load()), fmt.Sprint(what == "unmounted" || what == "deleted" || what == "no longer there"))
	}
}

func TestTwoWatchersAndAnInstaller(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	a, b := n.start(), n.start()

	for range 20 {
		_ = os.Remove(filepath.Join(n.dest, "static"))
		_ = os.Remove(filepath.Join(n.dest, "tuning"))
		n.installNow()
		until(t, "all is there", func() bool { return n.right("static") && n.right("tuning") })
	}

	for _, w := range []*watcher{a, b} {
		until(t, "a watcher is content", func() bool { return w.metric("ready") == "1" && w.metric("unknown") == "0" })
		equal(t, "altered", w.metric("altered"), "0")
	}

	// What the test removes as soon as it is there may be told of as just that.
	if n.log.lines("msg=problem") != n.log.lines("msg=problem", "somebody has removed it again") {
		t.Errorf("the log is\n%s", n.log.String())
	}

	entries, err := os.ReadDir(n.dest)
	must(t, err)

	if len(entries) != 2 {
		t.Errorf("the directory has %v", entries)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(encode(1, unix.IN_CREATE, "static"))
	f.Add([]byte{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'a'})
	f.Add([]byte{1, 0, 0, 0})

	f.Fuzz(func(t *testing.T, data []byte) {
		read := 0
		for e := range events(data) {
			read += unix.SizeofInotifyEvent + len(e.name)
		}

		if read > len(data) {
			t.Errorf("%d bytes of events in %d", read, len(data))
		}
	})
}
