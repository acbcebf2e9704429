package stage

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

func must(t testing.TB, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func TestInstallFindsTuningInEveryState(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		prepare func(n *node)
		action  string
		// stays says that the entry is left as it was.
		stays bool
	}{
		"absent":    {func(*node) {}, "installed", false},
		"foreign":   {func(n *node) { n.put("tuning", "#!/bin/sh\n", 0o755) }, "replaced foreign", false},
		"empty":     {func(n *node) { n.put("tuning", "", 0o755) }, "replaced foreign", false},
		"zero mode": {func(n *node) { n.put("tuning", "old", 0) }, "replaced foreign", false},
		"truncated": {func(n *node) {
			testplugins.Copy(n, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
			must(n, os.Truncate(filepath.Join(n.dest, "tuning"), 1<<20))
		}, "replaced foreign", false},
		"right": {func(n *node) {
			testplugins.Copy(n, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
		}, "unchanged", true},
		"right, mode 0555": {func(n *node) {
			testplugins.Copy(n, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
			must(n, os.Chmod(filepath.Join(n.dest, "tuning"), 0o555))
		}, "unchanged", true},
		"right, not executable": {func(n *node) {
			testplugins.Copy(n, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
			must(n, os.Chmod(filepath.Join(n.dest, "tuning"), 0o644))
		}, "replaced foreign", false},
		"right, writable by all": {func(n *node) {
			testplugins.Copy(n, filepath.Join(n.source, "tuning"), filepath.Join(n.dest, "tuning"))
			must(n, os.Chmod(filepath.Join(n.dest, "tuning"), 0o777))
		}, "replaced foreign", false},
		"symlink": {func(n *node) {
			write(n, filepath.Join(n.state, "..", filepath.Base(n.state)+"-target"), "shared", 0o755)
			must(n, os.Symlink("../"+filepath.Base(n.state)+"-target", filepath.Join(n.dest, "tuning")))
		}, "replaced foreign", false},
		"dangling symlink": {func(n *node) { must(n, os.Symlink("nowhere", filepath.Join(n.dest, "tuning"))) }, "replaced foreign", false},
		"directory":        {func(n *node) { must(n, os.Mkdir(filepath.Join(n.dest, "tuning"), 0o755)) }, "failed", true},
		"FIFO":             {func(n *node) { must(n, unix.Mkfifo(filepath.Join(n.dest, "tuning"), 0o644)) }, "failed", true},
		"socket": {func(n *node) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			must(n, err)
			n.Cleanup(func() { unix.Close(fd) })
			// The path of a socket is bounded, a test's directory is not.
			link, err := os.MkdirTemp("", "s")
			must(n, err)
			n.Cleanup(func() { os.RemoveAll(link) })
			must(n, os.Symlink(n.dest, filepath.Join(link, "d")))
			must(n, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(link, "d", "tuning")}))
		}, "failed", true},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			c.prepare(n)

			before := snapshot(t, n.dest)
			inode := inodeOf(n, "tuning")

			report := n.install()

			equal(t, "actions", actions(report), map[string]string{"static": "installed", "tuning": c.action})
			equal(t, "changed", report.Changed, true)

			want := n.staged()
			if c.stays {
				want["tuning"] = before["tuning"]
			}

			equal(t, "directory", snapshot(t, n.dest), want)

			if c.stays && inodeOf(n, "tuning") != inode {
				t.Error("the entry that should stay has another inode")
			}

			n.consistent()

			again := n.install()
			if again.Changed {
				t.Errorf("the second run changes something: %s", pretty(again))
			}
		})
	}
}

func inodeOf(n *node, name string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(n.dest, name), &st) != nil {
		return 0
	}

	return st.Ino
}

func TestInstallNamesWhatIsNoPlugin(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	must(t, os.Mkdir(filepath.Join(n.dest, "tuning"), 0o755))
	must(t, unix.Mkfifo(filepath.Join(n.dest, "static"), 0o644))

	report := n.install()

	equal(t, "failed", report.Failed, []string{"static", "tuning"})
	equal(t, "reason", reason(report, "tuning"), "tuning is a directory, not a plugin binary; left as is")
	equal(t, "reason", reason(report, "static"), "static is a FIFO, not a plugin binary; left as is")
}

func TestInstallLeavesTheTargetOfASymlink(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	target := filepath.Join(t.TempDir(), "shared")
	write(t, target, "shared", 0o755)
	must(t, os.Symlink(target, filepath.Join(n.dest, "static")))

	n.install()

	data, err := os.ReadFile(target)
	must(t, err)
	equal(t, "target", string(data), "shared")
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}

func TestInstallTouchesNothingThatIsRight(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()

	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, os.Chtimes(n.dest, old, old))
	must(t, os.Chtimes(n.state, old, old))

	var before, after unix.Stat_t

	must(t, unix.Stat(filepath.Join(n.dest, "static"), &before))

	calls := map[string]int{}
	report := n.install(func(o *InstallOptions) {
		o.workers = 1
		o.system.before = func(call, _ string) error {
			calls[call]++

			return nil
		}
	})

	equal(t, "actions", actions(report), map[string]string{"static": "unchanged", "tuning": "unchanged"})
	must(t, unix.Stat(filepath.Join(n.dest, "static"), &after))

	if before.Ino != after.Ino || before.Ctim != after.Ctim || before.Mtim != after.Mtim {
		t.Error("a file that was right has been touched")
	}

	for _, dir := range []string{n.dest, n.state} {
		info, err := os.Stat(dir)
		must(t, err)

		if !info.ModTime().Equal(old) {
			t.Errorf("%s has been touched", dir)
		}
	}

	for _, call := range []string{"create", "write", "rename", "unlink", "chmod", "mkdir", "flock", "fsync", "symlink"} {
		if calls[call] > 0 {
			t.Errorf("a run with nothing to do calls %s", call)
		}
	}
}

func TestInstallKeepsTheDirectoryAsItWas(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	must(t, os.Chown(n.dest, 997, 996))
	must(t, os.Chmod(n.dest, 0o775|os.ModeSetgid))
	must(t, unix.Setxattr(n.dest, "user.note", []byte("kept"), 0))

	n.install()

	var st unix.Stat_t

	must(t, unix.Stat(n.dest, &st))

	if st.Uid != 997 || st.Gid != 996 || st.Mode&0o7777 != 0o2775 {
		t.Errorf("the directory is %d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
	}

	value := make([]byte, 8)
	count, err := unix.Getxattr(n.dest, "user.note", value)
	must(t, err)
	equal(t, "attribute", string(value[:count]), "kept")
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}

func TestInstallIgnoresTheUmask(t *testing.T) {
	// Not parallel: the umask is the process's.
	n := newNode(t)
	dest := filepath.Join(n.dest, "new", "bin")
	n.dest = dest

	old := unix.Umask(0o077)
	report := n.install(func(o *InstallOptions) { o.Create = true })
	unix.Umask(old)

	equal(t, "failed", report.Failed, []string{})
	equal(t, "directory", snapshot(t, n.dest), n.staged())

	info, err := os.Stat(dest)
	must(t, err)
	equal(t, "mode", info.Mode().Perm(), os.FileMode(0o755))
}

func TestInstallCreatesTheDirectoryOnlyWhenTold(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.dest = filepath.Join(n.dest, "bin")

	report := n.install()
	equal(t, "failed", report.Failed, []string{"static", "tuning"})

	if text := reason(report, "static"); !strings.Contains(text, "ENOENT") || !strings.Contains(text, "--create") || !strings.Contains(text, n.dest) {
		t.Errorf("the reason is no help: %s", text)
	}

	if report = n.install(func(o *InstallOptions) { o.Create, o.DryRun = true, true }); len(report.Failed) == 0 {
		t.Error("a dry run finds the directory that it must not create")
	}

	n.install(func(o *InstallOptions) { o.Create = true })
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}

func TestInstallIntoSomethingElse(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.dest = filepath.Join(n.dest, "bin")
	write(t, n.dest, "", 0o644)

	text := reason(n.install(func(o *InstallOptions) { o.Create = true }), "static")
	if !strings.Contains(text, "ENOTDIR") {
		t.Errorf("the reason is no help: %s", text)
	}
}

func TestInstallTakesAnotherBuildOfTheSamePinForRight(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()
	testplugins.WriteManifest(t, n.dest, testplugins.ManifestOf(t, n.source))
	baked := snapshot(t, n.dest)

	n.rebuild("static")

	report := n.install()
	equal(t, "actions", actions(report), map[string]string{"static": "unchanged (same pin, other build)", "tuning": "unchanged"})
	equal(t, "directory", snapshot(t, n.dest), baked)

	// A shortened file has the same build info and version, and is not right.
	must(t, os.Truncate(filepath.Join(n.dest, "tuning"), 2<<20))
	equal(t, "truncated", actions(n.install())["tuning"], "replaced foreign")

	report = n.install(func(o *InstallOptions) { o.Exact = true })
	equal(t, "exact", actions(report)["static"], "replaced")
	equal(t, "manifest", snapshot(t, n.dest)[payload.ManifestName], baked[payload.ManifestName])
}

func TestInstallTrustsNoOtherPin(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install()

	m := testplugins.ManifestOf(t, n.source)
	m.Pin.Version = "v1.0.0"
	testplugins.WriteManifest(t, n.dest, m)
	n.rebuild("static")

	equal(t, "action", actions(n.install())["static"], "replaced")
}

func TestInstallPolicies(t *testing.T) {
	t.Parallel()

	for policy, want := range map[Update]map[string]string{
		Always:  {"bridge": "replaced foreign", "static": "installed", "tuning": "replaced"},
		Owned:   {"bridge": "left (foreign) foreign", "static": "installed", "tuning": "replaced"},
		Missing: {"bridge": "left (present) foreign", "static": "installed", "tuning": "left (present)"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()

			n := newNode(t, "bridge", "static", "tuning")
			n.install(func(o *InstallOptions) { o.Only = []string{"tuning"} })
			n.put("bridge", "foreign", 0o755)
			n.rebuild("tuning")

			equal(t, "actions", actions(n.install(func(o *InstallOptions) { o.Update = policy })), want)
			n.consistent()
		})
	}
}

func TestInstallSelects(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "static", "tuning")
	report := n.install(func(o *InstallOptions) {
		o.Only = []string{"bridge", "static", "dhcp"}
		o.Skip = []string{"static", "flannel"}
	})

	equal(t, "actions", actions(report), map[string]string{
		"bridge": "installed", "static": "skipped", "tuning": "skipped", "dhcp": "failed",
	})
	equal(t, "directory", snapshot(t, n.dest), n.staged("bridge"))
}

func TestInstallDryRunTouchesNothing(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "foreign", 0o755)
	before := snapshot(t, n.dest)

	report := n.install(func(o *InstallOptions) { o.DryRun = true })
	equal(t, "actions", actions(report), map[string]string{"static": "installed", "tuning": "replaced foreign"})
	equal(t, "changed", report.Changed, true)
	equal(t, "directory", snapshot(t, n.dest), before)
	equal(t, "state", snapshot(t, n.state), map[string]string{})
}

func TestInstallInPlaceOnlyVerifies(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "static", "tuning")
	n.dest = n.source

	report := n.install()
	equal(t, "actions", actions(report), map[string]string{"bridge": "unchanged", "static": "unchanged", "tuning": "unchanged"})

	n.put("static", "changed", 0o755)
	must(t, os.Chmod(filepath.Join(n.dest, "tuning"), 0o600))
	must(t, os.Remove(filepath.Join(n.dest, "bridge")))
	before := snapshot(t, n.dest)

	report = n.install()
	equal(t, "failed", report.Failed, []string{"bridge", "static", "tuning"})
	equal(t, "changed", report.Changed, false)
	equal(t, "directory", snapshot(t, n.dest), before)

	if text := reason(report, "static"); !strings.Contains(text, "does not match its manifest") {
		t.Errorf("the reason is no help: %s", text)
	}
}

func TestInstallSeparatesWhatSharesOneFile(t *testing.T) {
	t.Parallel()

	n := newNode(t, "static")
	m := testplugins.ManifestOf(t, n.source)
	twin := m.Plugins[0]
	twin.Name = "twin"
	m.Plugins = append(m.Plugins, twin)
	testplugins.WriteManifest(t, n.source, m)

	n.install()

	if a, b := inodeOf(n, "static"), inodeOf(n, "twin"); a == b || a == 0 || b == 0 {
		t.Errorf("inodes are %d and %d", a, b)
	}

	digest, _, err := payload.DigestFile(filepath.Join(n.dest, "twin"))
	must(t, err)
	equal(t, "digest", digest, twin.Digest)
}

func TestInstallWithoutAState(t *testing.T) {
	t.Parallel()

	for name, state := range map[string]func(t *testing.T) string{
		"missing": func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") },
		"none":    func(*testing.T) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			n.put("tuning", "foreign", 0o755)
			n.state = state(t)

			report := n.install()
			equal(t, "actions", actions(report), map[string]string{"static": "installed", "tuning": "replaced foreign"})
			equal(t, "notes", len(report.Notes), 1)

			if text := report.Notes[0]; !strings.Contains(text, "no record is kept") {
				t.Errorf("the note is no help: %s", text)
			}
		})
	}
}

func TestInstallWithAnUnwritableState(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "foreign", 0o755)

	report := n.install(func(o *InstallOptions) {
		o.system.before = func(call, path string) error {
			if strings.HasPrefix(path, n.state) && (call == "mkdir" || call == "create") {
				return unix.EROFS
			}

			return nil
		}
	})

	equal(t, "actions", actions(report), map[string]string{"static": "installed", "tuning": "replaced foreign"})
	equal(t, "good", report.Good(), true)
	equal(t, "notes", len(report.Notes), 1)
}

// The backup is there from an earlier run, the state directory has become read-only since.
func TestInstallWithAStateThatBecameReadOnly(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "foreign", 0o755)
	n.install()
	n.put("tuning", "foreign again", 0o755)

	report := n.install(func(o *InstallOptions) {
		o.system.before = func(call, path string) error {
			if strings.HasPrefix(path, n.state) && call == "create" {
				return unix.EROFS
			}

			return nil
		}
	})

	equal(t, "actions", actions(report), map[string]string{"static": "unchanged", "tuning": "replaced foreign"})
	equal(t, "notes", len(report.Notes), 1)
}

func TestInstallThatNeverBegan(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	report, err := Install(ctx, n.options())
	if err == nil {
		t.Error("an interrupted run reports no error")
	}

	equal(t, "failed", report.Failed, []string{"static", "tuning"})
	equal(t, "changed", report.Changed, false)
	equal(t, "directory", snapshot(t, n.dest), map[string]string{})
}

func TestInstallIsInterrupted(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "old", 0o755)

	ctx, cancel := context.WithCancel(t.Context())
	writes := 0

	report, err := Install(ctx, n.options(func(o *InstallOptions) {
		o.workers = 1
		o.system.before = func(call, path string) error {
			if call == "write" && strings.HasPrefix(path, n.dest) {
				if writes++; writes == 5 {
					cancel()
				}
			}

			return nil
		}
	}))
	if err == nil {
		t.Error("an interrupted run reports no error")
	}

	equal(t, "failed", len(report.Failed) > 0, true)
	noLitter(t, n.dest)
	n.consistent()

	n.install()
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}
