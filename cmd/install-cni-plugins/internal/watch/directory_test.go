package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

func (s *stepped) wantPage(what string, page []byte, parts ...string) {
	s.node.Helper()

	for _, part := range parts {
		if !strings.Contains(string(page), part) {
			s.node.Errorf("%s says %q, not %q", what, page, part)
		}
	}
}

// A directory that goes and comes is waited for, told of once, and filled when it is there.
func TestDirectoryComesAndGoes(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.dest = filepath.Join(n.dest, "bin")

	s := n.step()

	for range 3 {
		s.wait(time.Hour)
	}

	s.wantMetric("ready", "0")
	s.wantMetric(`errors_total{operation="verify"}`, "4")
	s.wantPage("readyz", s.pages.Load().status, "opening "+n.dest+": ENOENT")
	s.wantPage("livez", s.pages.Load().alive, "ok")

	if lines := n.log.lines("ENOENT"); lines != 2 { // the problem and that it makes the node unready
		t.Errorf("it is told %d times:\n%s", lines, n.log.String())
	}

	for _, change := range []func(){
		func() { must(t, os.Mkdir(n.dest, 0o755)) },
		func() { must(t, os.RemoveAll(n.dest)); must(t, os.Mkdir(n.dest, 0o755)) },
		func() { must(t, os.Rename(n.dest, n.dest+".old")); must(t, os.Mkdir(n.dest, 0o755)) },
		func() {
			must(t, os.RemoveAll(n.dest))
			must(t, os.Mkdir(n.dest+".new", 0o755))
			must(t, os.Symlink(n.dest+".new", n.dest))
		},
		func() { must(t, os.RemoveAll(n.dest)); must(t, os.Mkdir(n.dest, 0o755)) },
	} {
		change()
		s.look()
		s.wait(maxPatience)
		s.want("right", "right")
		s.wantMetric("ready", "1")
		s.wantMetric("stale_mount", "0")
		s.wantMetric("inotify_active", "1")
	}
}

// Where nothing can be written that is said once, and what is there is enough.
func TestReadOnlyMount(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.fill()
	n.remove("tuning")

	testplugins.Need(t, unix.Mount(n.dest, n.dest, "", unix.MS_BIND, ""), "bind mounts")
	t.Cleanup(func() { unix.Unmount(n.dest, unix.MNT_DETACH) })
	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	s := n.step()
	s.settle()

	for range 20 {
		s.wait(time.Hour)
	}

	s.want("right", "missing")
	s.wantMetric("ready", "0")
	s.wantPage("readyz", s.pages.Load().status, "missing: tuning")

	if lines := n.log.lines("level=warn", "msg=problem", "EROFS", "mounted read-only"); lines != 1 {
		t.Errorf("it is told %d times:\n%s", lines, n.log.String())
	}

	// Somebody else helps: that is the end of it.
	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT, ""))
	n.fill()
	s.look()
	s.settle()

	if n.log.lines("msg=over", "restore tuning", "EROFS") != 1 {
		t.Errorf("the end is not told:\n%s", n.log.String())
	}

	n.remove("tuning")
	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	s.look()
	s.wantMetric("ready", "0")

	// It is tried again by itself, within minutes of being possible.
	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT, ""))
	s.wait(missingPolicy.max)
	s.settle()
	s.want("right", "right")
	s.wantMetric("ready", "1")

	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	s.wait(time.Hour)
	s.wantMetric("ready", "1")

	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC, ""))
	s.wait(time.Hour)
	s.wantMetric("ready", "0")
	s.wantPage("readyz", s.pages.Load().status, "mounted noexec")
}

// What a container sees of a directory that its node has replaced. Only a new container helps.
func TestStaleMount(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	for name, replace := range map[string]struct {
		how  func(dir string) error
		want string
	}{
		"deleted": {func(dir string) error { return os.RemoveAll(dir) }, "was deleted on the node"},
		"moved":   {func(dir string) error { return os.Rename(dir, dir+".old") }, "was moved away on the node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			onNode := filepath.Join(t.TempDir(), "bin")
			must(t, os.Mkdir(onNode, 0o755))
			testplugins.Need(t, unix.Mount(onNode, n.dest, "", unix.MS_BIND, ""), "bind mounts")
			t.Cleanup(func() { unix.Unmount(n.dest, unix.MNT_DETACH) })

			s := n.step()
			s.settle()
			s.wantMetric("ready", "1")

			// A mount point cannot be removed or renamed where it is mounted; from another mount
			// namespace it can, and this is the other one: the directory itself is no mount point.
			must(t, replace.how(onNode))
			must(t, os.Mkdir(onNode, 0o755))

			// The event comes by another goroutine.
			until(t, "the mount is stale", func() bool {
				s.look()

				return s.metric("stale_mount") == "1"
			})

			// And it stays so, however the watches are made anew.
			s.notifier.queue.broken.Store(true)
			s.look()
			s.wantMetric("ready", "0")
			s.wantPage("livez", s.pages.Load().alive, replace.want)

			if s.pages.Load().live {
				t.Error("it does not ask for a new container")
			}

			if n.log.lines("level=warn", replace.want, "about=mount") != 1 {
				t.Errorf("the log is\n%s", n.log.String())
			}
		})
	}
}

// Moving a directory there and back is no stale mount, and neither is anything that is no mount.
func TestMovedThereAndBack(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step()
	must(t, os.Rename(n.dest, n.dest+".old"))
	must(t, os.Rename(n.dest+".old", n.dest))

	until(t, "the move is noticed", func() bool {
		s.notifier.queue.mu.Lock()
		defer s.notifier.queue.mu.Unlock()

		return len(s.notifier.queue.moved) > 0
	})

	s.look()
	s.wantMetric("stale_mount", "0")
	s.wantMetric("ready", "1")

	// A watch that has gone is made anew, also where the directory looks the same.
	gone := s.notifier.queue
	gone.broken.Store(true)
	s.look()

	if s.notifier.queue == gone {
		t.Error("the watch that has gone is kept")
	}
}

func TestMountOverTheDirectory(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.fill()

	s := n.step()
	s.settle()

	testplugins.Need(t, unix.Mount("tmpfs", n.dest, "tmpfs", 0, "mode=755"), "mounts")
	t.Cleanup(func() { unix.Unmount(n.dest, unix.MNT_DETACH) })

	s.wait(time.Hour)
	s.settle()
	s.want("right", "right")
	s.wantMetric(`restored_total{reason="missing"}`, "2")
	s.wantMetric("inotify_active", "1")
}

// A payload that is not there is nothing to restore from, and no reason to end.
func TestWithoutPayload(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()
	must(t, os.Rename(n.source, n.source+".away"))

	s := n.step()
	s.wantMetric("ready", "0")
	s.wantPage("readyz", s.pages.Load().status, "nothing to verify against")

	// The manifest that is baked beside the plugins will do for looking.
	data, err := os.ReadFile(filepath.Join(n.source+".away", ".cni-plugins.json"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.dest, ".cni-plugins.json"), data, 0o644))

	s.settle()
	s.settle()
	s.want("right", "right")

	n.remove("static")
	s.look()
	s.want("missing", "right")
	s.wantPage("readyz", s.pages.Load().status, "missing: static")

	if n.log.lines("about=restore", "skipping staging") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}

	must(t, os.Rename(n.source+".away", n.source))
	s.wait(missingPolicy.max)
	s.settle()
	s.want("right", "right")
}

// Deleting on an overlay leaves a whiteout in the upper directory; the plugin is restored over it.
func TestOverlay(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.fill()

	upper, lower := t.TempDir(), n.dest
	n.dest = t.TempDir()

	// An overlay's upper directory may not lie on an overlay, as the tests may.
	testplugins.Need(t, unix.Mount("tmpfs", upper, "tmpfs", 0, "mode=755"), "mounts")
	t.Cleanup(func() { unix.Unmount(upper, unix.MNT_DETACH) })

	for _, dir := range []string{"upper", "work"} {
		must(t, os.Mkdir(filepath.Join(upper, dir), 0o755))
	}

	testplugins.Need(t, unix.Mount("overlay", n.dest, "overlay", 0,
		"lowerdir="+lower+",upperdir="+filepath.Join(upper, "upper")+",workdir="+filepath.Join(upper, "work")), "overlays")
	t.Cleanup(func() { unix.Unmount(n.dest, unix.MNT_DETACH) })

	s := n.step()
	s.settle()
	s.want("right", "right")

	entries, err := os.ReadDir(filepath.Join(upper, "upper"))
	if err != nil || len(entries) > 0 {
		t.Errorf("watching what is right writes %v, %v", entries, err)
	}

	n.remove("static")
	s.look()
	s.settle()
	s.want("right", "right")

	if !n.right("static") {
		t.Error("the plugin is not restored")
	}
}

// What cannot be read is told of once, and read when it can be.
func TestUnreadable(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	// A file larger than any plugin is not read, by whomever.
	must(t, os.Truncate(filepath.Join(n.dest, "static"), 1<<40))

	s := n.step()

	for range 5 {
		s.wait(maxPatience)
	}

	s.want("unknown", "right")
	s.wantMetric("ready", "1")

	if n.log.lines("about=\"verify static\"", "more than any plugin") != 1 {
		t.Errorf("the log is\n%s", n.log.String())
	}

	n.fill()
	s.wait(maxPatience)
	s.wait(maxPatience)
	s.want("right", "right")
}
