package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
	"github.com/cnibake/cnibake/profiles/distro"
)

func TestMissingIsRestored(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	s := n.step()

	if !n.right("static") || !n.right("tuning") {
		t.Fatal("an empty directory stays empty")
	}

	s.settle()
	s.want("right", "right")
	s.wantMetric(`restored_total{reason="missing"}`, "2")
	s.wantMetric("ready", "1")

	n.remove("tuning")
	s.look()
	s.settle()
	s.want("right", "right")
	s.wantMetric(`restored_total{reason="missing"}`, "3")

	if log := n.log.String(); n.log.lines("level=info msg=restored plugin=tuning reason=missing") != 2 {
		t.Errorf("the log is\n%s", log)
	}

	// It is recorded as what an install writes is.
	report, err := stage.Uninstall(t.Context(), stage.UninstallOptions{Source: n.source, Dest: n.dest, StateDir: n.state})
	must(t, err)

	for _, r := range report.Plugins {
		equal(t, r.Name, string(r.Action), "removed")
	}
}

// What is right at rest is not read again, whatever the number of looks.
func TestRestReadsNothing(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step()
	s.settle()
	s.wantMetric("hashed_files_total", "2")

	for range 10 {
		s.wait(time.Minute)
	}

	s.wantMetric("hashed_files_total", "2")
	s.wantMetric("verifications_total", "12")

	if s.next.Sub(n.now()) != time.Hour {
		t.Errorf("the next look is in %s", s.next.Sub(n.now()))
	}

	// Once in a while they are all the same, and what did not show is found.
	must(t, os.WriteFile(filepath.Join(n.dest, "static"), []byte("rot"), 0o755))

	seen := s.plugin("static")
	fd, err := unix.Open(n.dest, unix.O_PATH, 0)
	must(t, err)

	defer unix.Close(fd)

	seen.seen, err = lookAt(fd, "static")
	must(t, err)

	seen.verified = seen.seen

	s.wait(time.Minute)
	s.want("right", "right")
	s.wait(rehash)
	s.want("altered", "right")
	s.wantMetric("hashed_files_total", "4")
}

func TestAlteredIsReported(t *testing.T) {
	t.Parallel()

	for name, alter := range map[string]func(n *node, path string){
		"other bytes": func(n *node, path string) { n.write("static", "altered") },
		"same size": func(n *node, path string) {
			info, err := os.Stat(path)
			must(n, err)
			n.write("static", strings.Repeat("x", int(info.Size())))
			must(n, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"writable":  func(n *node, path string) { must(n, os.Chmod(path, 0o777)) },
		"no rights": func(n *node, path string) { must(n, os.Chmod(path, 0o644)) },
		"directory": func(n *node, path string) { n.remove("static"); must(n, os.Mkdir(path, 0o755)) },
		"dangling":  func(n *node, path string) { n.remove("static"); must(n, os.Symlink("nothing", path)) },
		"symlink":   func(n *node, path string) { n.remove("static"); must(n, os.Symlink("tuning", path)) },
		"outside":   func(n *node, path string) { n.remove("static"); must(n, os.Symlink("/on/the/node", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			n.fill()

			s := n.step()
			s.settle()
			s.want("right", "right")

			alter(n, filepath.Join(n.dest, "static"))
			s.look()
			s.settle()
			s.wantMetric("altered", "1")
			s.wantMetric(`restored_total{reason="altered"}`, "0")

			ready := map[string]string{"no rights": "0", "directory": "0", "dangling": "0"}[name]
			if ready == "" {
				ready = "1"
			}

			s.wantMetric("ready", ready)

			for range 3 {
				s.settle()
			}

			if n.right("static") && name != "writable" && name != "no rights" {
				t.Error("it was restored")
			}

			if n.log.lines("level=warn msg=altered plugin=static") != 1 {
				t.Errorf("the log is\n%s", n.log.String())
			}
		})
	}
}

// A writer that insists is let through: three restorations, then after one minute, two, four.
func TestAlteredIsRestoredAFewTimes(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step(func(o *Options) { o.RestoreAltered = true })
	s.settle()

	alter := func() {
		n.write("static", "newer")
		s.look()
		s.wait(maxPatience + time.Second) // that it keeps changing is not the point here
	}

	for range 3 {
		alter()

		if !n.right("static") {
			t.Fatal("it is not restored")
		}
	}

	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		n.write("static", "newer")
		s.plugin("static").patience = minPatience
		s.plugin("static").read = time.Time{}
		s.plugin("static").altered.last = n.now()
		s.look()
		s.wait(pause - time.Second)

		if n.right("static") {
			t.Fatalf("it is restored before %s", pause)
		}

		s.wantMetric("backing_off", "1")

		if due := s.next.Sub(n.now()); due > time.Second {
			t.Errorf("the next look is in %s", due)
		}

		s.wait(time.Second)

		if !n.right("static") {
			t.Fatalf("it is not restored after %s", pause)
		}

		s.wantMetric("backing_off", "0")
	}

	s.wantMetric(`restored_total{reason="altered"}`, "7")

	// After a day of peace it has its three again.
	s.wait(25 * time.Hour)
	alter()

	if !n.right("static") {
		t.Error("it is not forgotten")
	}
}

// A loop that deletes does not make a loop that writes.
func TestMissingBacksOff(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step()

	for range 100 {
		if n.right("static") {
			n.remove("static")
		}

		s.wait(time.Second)
	}

	if restored := s.count.restoredMissing; restored < 12 || restored > 16 {
		t.Errorf("in 100 s it was restored %d times", restored)
	}
}

// The names that the distribution ships are its own, there or not.
func TestPlatformOwnedIsLeft(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.source = testplugins.Payload(t, testplugins.Stripped, "bridge", "static")

	k3s, err := distro.Lookup("k3s")
	must(t, err)

	s := n.step(func(o *Options) { o.Distro, o.RestoreAltered = k3s, true })
	s.settle()
	s.want("right")
	s.wantMetric("wanted", "1")
	s.wantMetric("platform_owned", "1")
	s.wantMetric("ready", "1")

	n.write("bridge", "k3s' own")
	s.look()
	s.settle()

	if _, err := os.Stat(filepath.Join(n.dest, "bridge")); err != nil || n.right("bridge") {
		t.Errorf("the platform's bridge was touched: %v", err)
	}

	s.wantMetric("altered", "0")
}

func TestSelection(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	s := n.step(func(o *Options) { o.Skip = []string{"tuning"} })
	s.wantMetric("wanted", "1")

	if _, err := os.Stat(filepath.Join(n.dest, "tuning")); err == nil {
		t.Error("a skipped plugin is written")
	}
}

// A file that is being written is not judged, and one that never rests is not read all the time.
func TestRestlessFileIsNotRead(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step(func(o *Options) { o.RestoreAltered = true })
	s.settle()

	for range 600 {
		n.write("static", "being written")
		s.wait(time.Second)
	}

	s.wantMetric("hashed_files_total", "2")
	s.wantMetric("unknown", "1")
	s.wantMetric("ready", "1")

	// One that rests for just as long as is asked has to rest longer and longer.
	for range 200 {
		n.write("static", "being written")
		s.look()
		s.wait(3 * time.Second)
	}

	if s.count.hashed > 20 {
		t.Errorf("in ten minutes of writing %d files were read", s.count.hashed)
	}
}

// A payload that is another one by now is what the files are held to.
func TestNewPayload(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step(func(o *Options) { o.RestoreAltered = true })
	s.settle()

	testplugins.Copy(t, filepath.Join(n.source, "tuning"), filepath.Join(n.source, "static"))
	testplugins.WriteManifest(t, n.source, testplugins.ManifestOf(t, n.source))
	s.settle()
	s.settle()
	s.want("right", "right")

	if !n.right("static") {
		t.Error("the new payload's file is not there")
	}
}

// A verdict is on what was read. It says nothing of a file that has taken its place meanwhile.
func TestChangedWhileRead(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.fill()

	s := n.step()
	s.settle()

	fd, err := unix.Open(n.dest, unix.O_PATH, 0)
	must(t, err)

	defer unix.Close(fd)

	n.write("static", "another")

	p := s.plugin("static")
	p.judge(fd, stage.Check{Name: "static", State: stage.Right}, n.now())
	equal(t, "state", string(p.state), "unknown")
	s.wait(maxPatience)
	s.want("altered", "right")
}
