package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// mount mounts something for the time of a test.
func mount(t testing.TB, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	testplugins.NeedRoot(t)

	must(t, os.MkdirAll(target, 0o755))
	testplugins.Need(t, unix.Mount(source, target, kind, flags, data), "a mount of "+kind)

	t.Cleanup(func() { unmount(t, target) })
}

// unmount detaches: the child of another test may hold a descriptor between fork and exec.
func unmount(t testing.TB, target string) {
	t.Helper()

	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
		t.Errorf("unmounting %s: %v", target, err)
	}
}

func command(t testing.TB, name string, args ...string) {
	t.Helper()

	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// wantFailure checks that a plugin failed for a reason that says all of these.
func wantFailure(t testing.TB, r *Report, name string, parts ...string) {
	t.Helper()

	text := reason(r, name)
	for _, part := range parts {
		if !strings.Contains(text, part) || strings.Contains(text, "\n") {
			t.Errorf("the reason %q lacks %q", text, part)
		}
	}
}

func TestInstallOnAFullFileSystem(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	mount(t, "tmpfs", n.dest, "tmpfs", 0, "size=4m")
	n.put("tuning", "old", 0o755)

	before := snapshot(t, n.dest)["tuning"]
	report := n.install(func(o *InstallOptions) { o.workers = 1 })

	equal(t, "failed", report.Failed, []string{"tuning"})
	wantFailure(t, report, "tuning", filepath.Join(n.dest, "tuning"), "ENOSPC", "free space")

	want := n.staged("static")
	want["tuning"] = before
	equal(t, "directory", snapshot(t, n.dest), want)
	n.consistent()
}

func TestInstallWithoutInodes(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	mount(t, "tmpfs", n.dest, "tmpfs", 0, "nr_inodes=2")
	n.put("tuning", "old", 0o755)

	report := n.install()
	wantFailure(t, report, "tuning", "ENOSPC", "no inodes left")
	equal(t, "old plugin", snapshot(t, n.dest)["tuning"], "0755 0:0 "+digestOf("old"))
}

func TestInstallOnAReadOnlyMount(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.install(func(o *InstallOptions) { o.Only = []string{"static"} })
	n.put("tuning", "old", 0o755)
	before := snapshot(t, n.dest)

	mount(t, n.dest, n.dest, "", unix.MS_BIND, "")
	must(t, unix.Mount("", n.dest, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	report := n.install()
	equal(t, "failed", report.Failed, []string{"tuning"})
	equal(t, "action", actions(report)["static"], "unchanged")
	wantFailure(t, report, "tuning", filepath.Join(n.dest, "tuning"), "EROFS", "mount it writable")
	equal(t, "directory", snapshot(t, n.dest), before)
	n.consistent()
}

func TestInstallOnANoexecMount(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	mount(t, "tmpfs", n.dest, "tmpfs", unix.MS_NOEXEC, "")

	report := n.install()
	equal(t, "failed", report.Failed, []string{"static"})
	equal(t, "changed", report.Changed, true)
	wantFailure(t, report, "static", "EACCES", "noexec", n.dest)
	equal(t, "directory", snapshot(t, n.dest), n.staged())

	equal(t, "second run", n.install().Failed, []string{"static"})
}

func TestInstallOverAnImmutableFile(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "mkfs.ext4", "e2fsprogs")
	testplugins.NeedTool(t, "chattr", "e2fsprogs")

	n := newNode(t)
	image := filepath.Join(t.TempDir(), "image")
	write(t, image, "", 0o600)
	must(t, os.Truncate(image, 64<<20))
	command(t, "mkfs.ext4", "-q", image)
	command(t, "mount", "-o", "loop", image, n.dest)
	t.Cleanup(func() { unmount(t, n.dest) })

	n.put("tuning", "old", 0o755)
	command(t, "chattr", "+i", filepath.Join(n.dest, "tuning"))

	report := n.install()
	equal(t, "failed", report.Failed, []string{"tuning"})
	wantFailure(t, report, "tuning", filepath.Join(n.dest, "tuning"), "EPERM", "chattr -i")
	noLitter(t, n.dest)
	equal(t, "static", snapshot(t, n.dest)["static"], n.staged()["static"])
	equal(t, "tuning", snapshot(t, n.dest)["tuning"], "0755 0:0 "+digestOf("old"))
	n.consistent()

	command(t, "chattr", "-i", filepath.Join(n.dest, "tuning"))
	equal(t, "good", n.install().Good(), true)
}

func TestInstallWhereAMountCoversAName(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	n.put("tuning", "old", 0o755)

	other := filepath.Join(t.TempDir(), "other")
	write(t, other, "mounted", 0o755)
	must(t, unix.Mount(other, filepath.Join(n.dest, "tuning"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { unmount(t, filepath.Join(n.dest, "tuning")) })

	report := n.install()
	equal(t, "failed", report.Failed, []string{"tuning"})
	wantFailure(t, report, "tuning", "EBUSY", "unmount")
	noLitter(t, n.dest)
}

func TestInstallOverARunningPlugin(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	testplugins.Copy(t, "/bin/sleep", filepath.Join(n.dest, "tuning"))

	cmd := exec.Command(filepath.Join(n.dest, "tuning"), "60")
	must(t, cmd.Start())

	defer cmd.Process.Kill()

	equal(t, "action", actions(n.install())["tuning"], "replaced foreign")
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}

func TestInstallFindsWhatDoesNotRun(t *testing.T) {
	t.Parallel()

	n := newNode(t, "static")
	path := filepath.Join(n.source, "static")

	data, err := os.ReadFile(path)
	must(t, err)

	// A program whose entry point is nowhere.
	copy(data[24:32], make([]byte, 8))
	write(t, path, string(data), 0o755)
	testplugins.WriteManifest(t, n.source, testplugins.ManifestOf(t, n.source))

	report := n.install()
	equal(t, "failed", report.Failed, []string{"static"})
	wantFailure(t, report, "static", "does not run")
}
