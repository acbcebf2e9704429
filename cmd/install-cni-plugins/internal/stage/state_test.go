package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// A state directory that is there and cannot be used may hold what is nowhere else: nothing is
// replaced that could not be kept, and nothing in there is touched or followed.
func TestInstallWithADamagedState(t *testing.T) {
	t.Parallel()

	for name, damage := range map[string]func(t *testing.T, state, outside string){
		"record of garbage": func(t *testing.T, state, _ string) { write(t, filepath.Join(state, recordName), "{", 0o644) },
		"empty record":      func(t *testing.T, state, _ string) { write(t, filepath.Join(state, recordName), "", 0o644) },
		"huge record": func(t *testing.T, state, _ string) {
			write(t, filepath.Join(state, recordName), "", 0o644)
			must(t, os.Truncate(filepath.Join(state, recordName), 1<<40))
		},
		"record is a directory": func(t *testing.T, state, _ string) { must(t, os.Mkdir(filepath.Join(state, recordName), 0o755)) },
		"record is a FIFO":      func(t *testing.T, state, _ string) { must(t, unix.Mkfifo(filepath.Join(state, recordName), 0o644)) },
		"record is a link": func(t *testing.T, state, outside string) {
			must(t, os.Symlink(outside, filepath.Join(state, recordName)))
		},
		"backups are a link": func(t *testing.T, state, outside string) {
			must(t, os.Symlink(outside, filepath.Join(state, backupsName)))
		},
		"backups are a file": func(t *testing.T, state, _ string) { write(t, filepath.Join(state, backupsName), "", 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n, outside := newNode(t), t.TempDir()
			n.put("tuning", "foreign", 0o755)
			before := snapshot(t, n.dest)["tuning"]
			damage(t, n.state, outside)

			for _, dry := range []bool{true, false} {
				report := n.install(func(o *InstallOptions) { o.DryRun = dry && !strings.HasPrefix(name, "backups") })
				equal(t, "failed", report.Failed, []string{"tuning"})

				if text := reason(report, "tuning"); !strings.Contains(text, n.state) || !strings.Contains(text, "away") {
					t.Errorf("the reason is no help: %s", text)
				}
			}

			got := snapshot(t, n.dest)
			equal(t, "old plugin", got["tuning"], before)
			equal(t, "created plugin", got["static"], n.staged()["static"])
			equal(t, "outside", snapshot(t, outside), map[string]string{})
		})
	}
}

// Neither a dry run nor a source in place fails for want of a state directory.
func TestInstallNeedsNoStateToLook(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.state = filepath.Join(n.state, "none")

	report := n.install(func(o *InstallOptions) { o.DryRun = true })
	equal(t, "actions", actions(report), map[string]string{"static": "installed", "tuning": "installed"})

	report = n.install(func(o *InstallOptions) { o.Dest = o.Source })
	equal(t, "actions", actions(report), map[string]string{"static": "unchanged", "tuning": "unchanged"})
}

func TestInstallKeepsNoStateInTheBinDirectory(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.state = n.dest

	report := n.install()
	equal(t, "good", report.Good(), true)
	equal(t, "directory", snapshot(t, n.dest), n.staged())

	if text := strings.Join(report.Notes, "\n"); !strings.Contains(text, "--state-dir") || strings.Contains(text, "locked") {
		t.Errorf("the notes are no help: %s", text)
	}
}

// Whoever hangs with the state directory's lock is waited for once, not before every step.
func TestInstallWaitsOnceForTheState(t *testing.T) {
	t.Parallel()

	n := newNode(t)

	fd, err := unix.Open(n.state, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)

	defer unix.Close(fd)
	must(t, unix.Flock(fd, unix.LOCK_EX))

	report := n.install(func(o *InstallOptions) { o.LockWait = 10 * time.Millisecond })
	equal(t, "directory", snapshot(t, n.dest), n.staged())
	equal(t, "notes", len(report.Notes), 1)
}

// The plugins of some distributions are one program with several names. Replacing one of them changes
// the change time of the others.
func TestInstallOverHardLinks(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "host-local", "static", "tuning")
	n.put("bridge", "one program", 0o755)

	for _, name := range []string{"host-local", "static", "tuning", "flannel"} {
		must(t, os.Link(filepath.Join(n.dest, "bridge"), filepath.Join(n.dest, name)))
	}

	before := snapshot(t, n.dest)
	report := n.install()
	equal(t, "failed", report.Failed, []string{})
	equal(t, "flannel", snapshot(t, n.dest)["flannel"], before["flannel"])

	n.uninstall()
	equal(t, "directory", snapshot(t, n.dest), before)
}

// A sparse file may be petabytes long: nobody waits until it has been read.
func TestInstallReadsNothingThatIsFarTooLarge(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "", 0o755)
	must(t, os.Truncate(filepath.Join(n.dest, "tuning"), 1<<42))

	report := n.install()
	equal(t, "failed", report.Failed, []string{"tuning"})

	if text := reason(report, "tuning"); !strings.Contains(text, "more than any plugin") {
		t.Errorf("the reason is no help: %s", text)
	}

	n.uninstall()

	info, err := os.Stat(filepath.Join(n.dest, "tuning"))
	must(t, err)
	equal(t, "size", info.Size(), int64(1)<<42)

	other := t.TempDir()
	write(t, filepath.Join(other, "static"), "", 0o755)
	must(t, os.Truncate(filepath.Join(other, "static"), 1<<42))

	report = n.install(func(o *InstallOptions) { o.Source = other })
	equal(t, "failed", report.Failed, []string{"static"})
}

// What was replaced for its mode only gets its mode back.
func TestUninstallBringsBackAMode(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	testplugins.Copy(t, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
	must(t, os.Chmod(filepath.Join(n.dest, "tuning"), 0o640))
	before := snapshot(t, n.dest)
	n.install()
	equal(t, "directory", snapshot(t, n.dest), n.staged())
	n.uninstall()
	equal(t, "uninstalled", snapshot(t, n.dest), before)
}
