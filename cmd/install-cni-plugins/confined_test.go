package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// runWithoutCapabilities runs a command whose process can have no capabilities, though it is uid 0.
func runWithoutCapabilities(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()

	result := make(chan error)

	go func() {
		// The bounding set is the thread's; a locked thread ends with its goroutine.
		runtime.LockOSThread()

		for c := 0; c <= unix.CAP_LAST_CAP; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
				result <- err

				return
			}
		}

		result <- cmd.Run()
	}()

	return <-result
}

// confine lays a root file system with the program, a payload and nothing else, read-only but for
// the bin and state directories.
func confine(t *testing.T, names ...string) (root string) {
	t.Helper()
	testplugins.NeedRoot(t)

	root = t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "host/opt/cni/bin"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "var/lib/cni-plugins"), 0o755))
	testplugins.Copy(t, binary(t), filepath.Join(root, "install-cni-plugins"))

	source := testplugins.Payload(t, testplugins.Stripped, names...)
	must(t, os.CopyFS(filepath.Join(root, "cni-plugins"), os.DirFS(source)))
	must(t, os.Rename(filepath.Join(root, "cni-plugins/.cni-plugins.json"), filepath.Join(root, "manifest.json")))

	bind := func(from, to string, flags uintptr) {
		testplugins.Need(t, unix.Mount(from, to, "", unix.MS_BIND, ""), "bind mounts")

		if flags != 0 {
			must(t, unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""))
		}

		t.Cleanup(func() { unix.Unmount(to, unix.MNT_DETACH) })
	}

	bind(root, root, unix.MS_RDONLY)
	bind(t.TempDir(), filepath.Join(root, "host/opt/cni/bin"), 0)
	bind(t.TempDir(), filepath.Join(root, "var/lib/cni-plugins"), 0)

	return root
}

func must(t testing.TB, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

// No capabilities, a read-only root, no /proc, /dev, /tmp, no shell.
func TestInstallInABareContainer(t *testing.T) {
	t.Parallel()

	root := confine(t, "bridge", "static")

	var out bytes.Buffer

	for _, want := range []string{"bridge: installed\nstatic: installed\n", "bridge: unchanged\nstatic: unchanged\n"} {
		out.Reset()

		cmd := exec.Command("/install-cni-plugins", "--strict")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.Stdout, cmd.Stderr = &out, &out

		// Changing the root needs a capability, which only exec takes away.
		must(t, runWithoutCapabilities(t, cmd))
		wantEqual(t, "output", out.String(), want)
	}

	cmd := exec.Command("/install-cni-plugins", "uninstall")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir, cmd.Env = "/", []string{}

	must(t, runWithoutCapabilities(t, cmd))

	entries, err := os.ReadDir(filepath.Join(root, "host/opt/cni/bin"))
	if err != nil || len(entries) > 0 {
		t.Errorf("uninstall leaves %v, %v", entries, err)
	}
}

// The case of a kubespray node: the directory belongs to user kube, and root may not override it.
func TestInstallIntoAnothersDirectory(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	p := newPlace(t, "static")
	must(t, os.Chown(p.dest, 997, 0))
	must(t, os.Chmod(p.dest, 0o755))

	var stderr bytes.Buffer

	cmd := exec.Command(binary(t), p.args()...)
	cmd.Stderr = &stderr

	must(t, runWithoutCapabilities(t, cmd))
	wantText(t, "stderr", stderr.String(), "failed to install: static\n", "EACCES", "uid 997", "CAP_DAC_OVERRIDE", filepath.Join(p.dest, "static"))

	// What is right there stays right.
	testplugins.Copy(t, filepath.Join(p.source, "static"), filepath.Join(p.dest, "static"))
	must(t, os.Chown(filepath.Join(p.dest, "static"), 997, 0))

	must(t, runWithoutCapabilities(t, exec.Command(binary(t), p.args("--strict")...)))
}

// Without capabilities root cannot read a file of mode 0 even if it is its own.
func TestInstallOverAnUnreadableFile(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	p := newPlace(t, "static")
	path := filepath.Join(p.dest, "static")
	write(t, path, "unreadable")
	must(t, os.Chmod(path, 0))

	must(t, runWithoutCapabilities(t, exec.Command(binary(t), p.args("--strict")...)))
	p.want(t)

	must(t, runWithoutCapabilities(t, exec.Command(binary(t), "uninstall", "--dest", p.dest, "--state-dir", p.state)))

	info, err := os.Stat(path)
	must(t, err)
	wantEqual(t, "mode", info.Mode(), os.FileMode(0))
	wantEqual(t, "size", info.Size(), int64(len("unreadable")))
}

func TestInstallAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	p := newPlace(t, "static")
	for _, dir := range []string{p.source, p.dest, p.state} {
		reachable(t, dir)
	}

	bin := filepath.Join(t.TempDir(), "install-cni-plugins")
	testplugins.Copy(t, binary(t), bin)
	reachable(t, filepath.Dir(bin))

	run := func(args ...string) (string, error) {
		cmd := exec.Command(bin, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()

		return string(out), err
	}

	out, err := run(p.args()...)
	must(t, err)
	wantText(t, "output", out, "failed to install: static\n", "EACCES", "belongs to uid 0", "run as uid 0")

	if _, err := run(p.args("--strict")...); err == nil {
		t.Error("a strict run succeeds")
	}

	testplugins.Copy(t, filepath.Join(p.source, "static"), filepath.Join(p.dest, "static"))

	out, err = run(p.args("--strict")...)
	if err != nil || !strings.Contains(out, "static: unchanged\n") {
		t.Errorf("what is right is reported as %v: %s", err, out)
	}
}

// reachable opens the path to a test's directory for other users.
func reachable(t *testing.T, dir string) {
	t.Helper()

	for ; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

// group is a memory control group of either version.
type group struct {
	dir, peak, limit string
}

func newGroup(t *testing.T, name string) group {
	t.Helper()
	testplugins.NeedRoot(t)

	g := group{dir: "/sys/fs/cgroup/memory/" + name, peak: "memory.max_usage_in_bytes", limit: "memory.limit_in_bytes"}

	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g = group{dir: "/sys/fs/cgroup/" + name, peak: "memory.peak", limit: "memory.max"}
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0)
	}

	testplugins.Need(t, os.Mkdir(g.dir, 0o755), "a control group for memory")
	t.Cleanup(func() { os.Remove(g.dir) })

	_, err := os.Stat(filepath.Join(g.dir, g.peak))
	testplugins.Need(t, err, "the memory controller")

	return g
}

// run runs a command in the group and returns the group's peak in bytes.
func (g group) run(t *testing.T, limit int, name string, args ...string) (peak int64) {
	t.Helper()

	if limit > 0 {
		must(t, os.WriteFile(filepath.Join(g.dir, g.limit), fmt.Append(nil, limit), 0))
	}

	script := []string{"-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, g.dir, name}

	out, err := exec.Command("sh", append(script, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("within %d bytes: %v: %s", limit, err, out)
	}

	data, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	must(t, err)

	_, err = fmt.Sscan(string(data), &peak)
	must(t, err)

	return peak
}

// The peak counts the page cache of all that is read and written, and the plugin that is tried out.
func TestInstallNeedsLittleMemory(t *testing.T) {
	const limit = 16 << 20

	p := place{source: testplugins.Payload(t, testplugins.Unstripped), dest: t.TempDir(), state: t.TempDir()}
	pad(t, filepath.Join(p.source, "bridge"), 60<<20)
	testplugins.WriteManifest(t, p.source, testplugins.ManifestOf(t, p.source))

	for i, c := range []struct {
		what  string
		limit int
	}{
		{"first staging", 0}, {"nothing to do", 0}, {"first staging within the limit", limit}, {"nothing to do within the limit", limit},
		{"replacing within the limit", limit},
	} {
		switch i {
		case 2:
			p.dest, p.state = t.TempDir(), t.TempDir()
		case 4:
			for _, plugin := range testplugins.ManifestOf(t, p.source).Plugins {
				pad(t, filepath.Join(p.dest, plugin.Name), plugin.Size+1)
			}
		}

		evict(t, p.source)
		evict(t, p.dest)

		peak := newGroup(t, fmt.Sprintf("install-cni-plugins-%d-%d", os.Getpid(), i)).run(t, c.limit, binary(t), p.args("--strict")...)
		t.Logf("%s: %.1f MiB", c.what, float64(peak)/(1<<20))

		if peak >= limit {
			t.Errorf("%s takes %d bytes", c.what, peak)
		}

		p.want(t)
	}
}

func pad(t *testing.T, path string, size int64) {
	t.Helper()

	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)

	defer f.Close()

	info, err := f.Stat()
	must(t, err)

	_, err = f.Write(bytes.Repeat([]byte("padding "), int(size-info.Size()+7)/8))
	must(t, err)
}

// evict drops a directory's files from the page cache, as on a node that has just pulled the image.
func evict(t *testing.T, dir string) {
	t.Helper()

	entries, err := os.ReadDir(dir)
	must(t, err)

	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		must(t, err)
		must(t, f.Sync())
		must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		f.Close()
	}
}
