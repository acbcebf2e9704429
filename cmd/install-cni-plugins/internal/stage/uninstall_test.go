package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

func TestUninstallBringsBackWhatWasThere(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "host-local", "static", "tuning")
	n.put("bridge", "foreign", 0o750)
	must(t, os.Symlink("../shared", filepath.Join(n.dest, "static")))
	testplugins.Copy(t, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
	n.put("flannel", "not ours at all", 0o755)

	before := snapshot(t, n.dest)

	n.install()

	// A second payload over the first: what comes back is what was there before both.
	n.rebuild("bridge", "static", "host-local")
	n.install()
	n.consistent()

	dry := n.uninstall(func(o *UninstallOptions) { o.DryRun = true })
	equal(t, "directory after a dry run", snapshot(t, n.dest)["bridge"], n.staged()["bridge"])

	report := n.uninstall()
	equal(t, "dry run", actions(dry), actions(report))
	equal(t, "actions", actions(report), map[string]string{
		"bridge": "restored", "host-local": "removed", "static": "restored",
	})
	equal(t, "directory", snapshot(t, n.dest), before)
	equal(t, "state", snapshot(t, n.state), map[string]string{})
}

func TestUninstallLeavesWhatWasChanged(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "static", "tuning")
	n.put("static", "before", 0o755)
	n.install()

	n.put("bridge", "changed", 0o755)
	n.put("static", "changed", 0o755)

	report := n.uninstall()
	equal(t, "actions", actions(report), map[string]string{
		"bridge": "left (changed since we wrote it)", "static": "left (changed since we wrote it)", "tuning": "removed",
	})

	for _, name := range []string{"bridge", "static"} {
		data, err := os.ReadFile(filepath.Join(n.dest, name))
		must(t, err)
		equal(t, name, string(data), "changed")
	}

	n.consistent()
}

func TestUninstallNeverDeletesWhatWasThereBeforeUs(t *testing.T) {
	t.Parallel()

	prepare := func(t *testing.T) *node {
		n := newNode(t)
		n.put("tuning", "before", 0o755)
		n.install()

		return n
	}

	t.Run("backup gone", func(t *testing.T) {
		t.Parallel()

		n := prepare(t)
		must(t, os.RemoveAll(filepath.Join(n.state, backupsName)))

		report := n.uninstall()
		equal(t, "failed", report.Failed, []string{"tuning"})
		equal(t, "directory", snapshot(t, n.dest), n.staged("tuning"))

		if text := reason(report, "tuning"); !strings.Contains(text, "no backup") {
			t.Errorf("the reason is no help: %s", text)
		}
	})

	t.Run("backup damaged", func(t *testing.T) {
		t.Parallel()

		n := prepare(t)
		entries, err := os.ReadDir(filepath.Join(n.state, backupsName))
		must(t, err)
		write(t, filepath.Join(n.state, backupsName, entries[0].Name()), "damaged", 0o600)

		report := n.uninstall()
		equal(t, "failed", report.Failed, []string{"tuning"})
		equal(t, "directory", snapshot(t, n.dest), n.staged("tuning"))
	})

	for name, spoil := range map[string]func(t *testing.T, n *node){
		"record gone":    func(t *testing.T, n *node) { must(t, os.Remove(filepath.Join(n.state, recordName))) },
		"record damaged": func(t *testing.T, n *node) { write(t, filepath.Join(n.state, recordName), "{}", 0o600) },
		"state gone":     func(t *testing.T, n *node) { must(t, os.RemoveAll(n.state)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := prepare(t)
			spoil(t, n)

			const left = "left (no record says that we wrote it) foreign"

			equal(t, "actions", actions(n.uninstall()), map[string]string{"static": left, "tuning": left})
			equal(t, "directory", snapshot(t, n.dest), n.staged())
		})
	}
}

func TestUninstallBringsBackWhatHasGone(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "before", 0o755)
	before := snapshot(t, n.dest)
	n.install()

	must(t, os.Remove(filepath.Join(n.dest, "static")))
	must(t, os.Remove(filepath.Join(n.dest, "tuning")))

	equal(t, "actions", actions(n.uninstall()), map[string]string{"static": "removed (it was gone already)", "tuning": "restored"})
	equal(t, "directory", snapshot(t, n.dest), before)
}

func TestUninstallSelects(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()

	n.uninstall(func(o *UninstallOptions) { o.Only = []string{"static"} })
	equal(t, "directory", snapshot(t, n.dest), n.staged("tuning"))
	n.consistent()

	n.uninstall()
	equal(t, "directory", snapshot(t, n.dest), map[string]string{})
}

func TestUninstallKnowsDirectoriesApart(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()

	other := *n
	other.dest = t.TempDir()
	other.install()

	n.uninstall()
	equal(t, "directory", snapshot(t, n.dest), map[string]string{})
	equal(t, "other directory", snapshot(t, other.dest), other.staged())

	report := n.uninstall()
	equal(t, "second time", report.Changed, false)

	if len(report.Notes) == 0 || !strings.Contains(report.Notes[0], other.dest) {
		t.Errorf("the note does not name the directory that the record knows: %s", report.Notes)
	}

	other.uninstall()
	equal(t, "state", snapshot(t, n.state), map[string]string{})
}

func TestInstallPrunesWhatIsNoLongerCarried(t *testing.T) {
	t.Parallel()

	prepare := func(t *testing.T) *node {
		n := newNode(t, "bridge", "host-local", "static", "tuning")
		n.put("bridge", "before", 0o755)
		n.put("flannel", "not ours", 0o755)
		n.install()
		n.drop("bridge", "host-local", "static")

		return n
	}

	t.Run("as uninstall would", func(t *testing.T) {
		t.Parallel()

		n := prepare(t)
		n.put("host-local", "changed", 0o755)

		dry := n.install(func(o *InstallOptions) { o.DryRun = true })
		report := n.install()
		want := map[string]string{
			"bridge": "restored (no longer carried)", "static": "removed (no longer carried)", "tuning": "unchanged",
			"host-local": "left (no longer carried, but changed since we wrote it)",
		}
		equal(t, "actions", actions(report), want)
		equal(t, "dry run", actions(dry), want)
		equal(t, "changed", report.Changed, true)
		equal(t, "entries", len(snapshot(t, n.dest)), 4)
		n.consistent()
	})

	for name, edit := range map[string]func(n *node, o *InstallOptions){
		"other names selected": func(_ *node, o *InstallOptions) { o.Only = []string{"tuning"} },
		"skipped":              func(_ *node, o *InstallOptions) { o.Skip = []string{"bridge", "host-local", "static"} },
		"missing names only":   func(_ *node, o *InstallOptions) { o.Update = Missing },
		"unverified source": func(n *node, _ *InstallOptions) {
			must(n, os.Remove(filepath.Join(n.source, ".cni-plugins.json")))
		},
		"other module": func(n *node, _ *InstallOptions) {
			m := testplugins.ManifestOf(n, n.source)
			m.Pin.Module = "example.com/other/plugins"
			testplugins.WriteManifest(n, n.source, m)
		},
	} {
		t.Run("not: "+name, func(t *testing.T) {
			t.Parallel()

			n := prepare(t)
			before := snapshot(t, n.dest)
			report := n.install(func(o *InstallOptions) { edit(n, o) })
			equal(t, "changed", report.Changed, false)
			equal(t, "directory", snapshot(t, n.dest), before)
		})
	}
}

// What k3s ships are links to one program in a directory beside.
func TestInstallOnK3s(t *testing.T) {
	t.Parallel()

	seven := []string{"bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}
	ours := []string{"bridge", "host-local", "portmap", "static", "tuning"}

	prepare := func(t *testing.T) (*node, map[string]string) {
		n := newNode(t, ours...)
		data := t.TempDir()
		n.dest = filepath.Join(data, "cni")
		shared := filepath.Join(data, "0123abcd", "bin")

		must(t, os.Mkdir(n.dest, 0o755))
		must(t, os.MkdirAll(shared, 0o755))
		write(t, filepath.Join(shared, "cni"), "the shared program", 0o755)

		for _, name := range seven {
			must(t, os.Symlink("../0123abcd/bin/cni", filepath.Join(n.dest, name)))
		}

		t.Cleanup(func() {
			data, err := os.ReadFile(filepath.Join(shared, "cni"))
			must(t, err)
			equal(t, "shared program", string(data), "the shared program")
		})

		return n, snapshot(t, n.dest)
	}

	t.Run("platform-owned", func(t *testing.T) {
		t.Parallel()

		n, before := prepare(t)
		report := n.install(onDistro(t, "k3s"))
		equal(t, "good", report.Good(), true)

		want := n.staged("static", "tuning")
		for name, what := range before {
			want[name] = what
		}

		equal(t, "directory", snapshot(t, n.dest), want)
		equal(t, "action", actions(report)["bridge"], "left (platform-owned) foreign")

		n.uninstall()
		equal(t, "uninstalled", snapshot(t, n.dest), before)
	})

	t.Run("take over", func(t *testing.T) {
		t.Parallel()

		n, before := prepare(t)
		n.install(onDistro(t, "k3s"), func(o *InstallOptions) { o.TakeOver = true })

		want := n.staged()
		for _, name := range []string{"bandwidth", "firewall", "flannel", "loopback"} {
			want[name] = before[name]
		}

		equal(t, "directory", snapshot(t, n.dest), want)

		n.uninstall()
		equal(t, "uninstalled", snapshot(t, n.dest), before)
	})
}

func TestUninstallBringsBackTheContentWhereItMayNotGiveFilesAway(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.put("tuning", "before", 0o755)
	must(t, os.Chown(filepath.Join(n.dest, "tuning"), 997, 996))
	must(t, os.Chmod(filepath.Join(n.dest, "tuning"), 0o755|os.ModeSetuid))
	before := snapshot(t, n.dest)
	n.install()

	equal(t, "before", before["tuning"], "4755 997:996 "+digestOf("before"))

	n.uninstall(func(o *UninstallOptions) {
		o.system.before = func(call, _ string) error {
			if call == "chown" {
				return unix.EPERM
			}

			return nil
		}
	})

	equal(t, "restored", snapshot(t, n.dest)["tuning"], "0755 0:0 "+digestOf("before"))
}

func TestUninstallBringsBackModeAndOwner(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.put("tuning", "before", 0o755)
	must(t, os.Chown(filepath.Join(n.dest, "tuning"), 997, 996))
	must(t, os.Chmod(filepath.Join(n.dest, "tuning"), 0o755|os.ModeSetuid))
	before := snapshot(t, n.dest)
	n.install()
	n.uninstall()
	equal(t, "restored", snapshot(t, n.dest), before)
}
