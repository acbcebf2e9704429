package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestInstallGoesOnWithoutTheLock(t *testing.T) {
	t.Parallel()

	n := newNode(t)

	dir, err := os.Open(n.dest)
	must(t, err)

	defer dir.Close()

	must(t, unix.Flock(int(dir.Fd()), unix.LOCK_EX))

	report := n.install(func(o *InstallOptions) { o.LockWait = 50 * time.Millisecond })
	equal(t, "directory", snapshot(t, n.dest), n.staged())
	equal(t, "notes", len(report.Notes), 1)

	if text := report.Notes[0]; !strings.Contains(text, "locked") || !strings.Contains(text, "50ms") {
		t.Errorf("the note is no help: %s", text)
	}
}

func TestInstallNeedsNoLocks(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	report := n.install(func(o *InstallOptions) {
		o.system.before = func(call, _ string) error {
			if call == "flock" {
				return unix.ENOLCK
			}

			return nil
		}
	})

	equal(t, "good", report.Good(), true)
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}

func TestInstallSweepsOnlyWhatAKilledInstallerLeft(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()

	held := ".cni-plugins-tmp-00000000000000aa"
	n.put(held, "being written", 0o600)

	running, err := os.Open(filepath.Join(n.dest, held))
	must(t, err)

	defer running.Close()

	must(t, unix.Flock(int(running.Fd()), unix.LOCK_SH))

	foreign := []string{".bridge.tmp", ".cni-plugins-tmp-notes", "cni-plugins-tmp-00000000000000aa", ".tmp.0123"}
	for _, name := range foreign {
		n.put(name, "theirs", 0o600)
	}

	must(t, os.Mkdir(filepath.Join(n.dest, ".cni-plugins-tmp-00000000000000dd"), 0o755))

	want := snapshot(t, n.dest)

	n.put(".cni-plugins-tmp-00000000000000bb", "left", 0o600)
	must(t, os.Symlink("left", filepath.Join(n.dest, ".cni-plugins-tmp-00000000000000cc")))

	equal(t, "good", n.install().Good(), true)
	equal(t, "directory", snapshot(t, n.dest), want)
}

// A sweeper may take a temporary file in the instant in which it has no lock yet: another is made.
func TestInstallMakesAnotherTemporaryFile(t *testing.T) {
	t.Parallel()

	n := newNode(t, "static")
	stolen := 0

	report := n.install(func(o *InstallOptions) {
		o.system.before = func(call, path string) error {
			if call == "open" && isTemporary(filepath.Base(path)) && stolen < 2 {
				stolen++

				return os.Remove(path)
			}

			return nil
		}
	})

	equal(t, "stolen", stolen, 2)
	equal(t, "good", report.Good(), true)
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}
