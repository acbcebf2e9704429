package stage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
	"github.com/cnibake/cnibake/profiles/distro"
)

// image is an overlay over a squashfs, as a node's /opt: the lower layer holds cni/bin with baked
// plugins and their manifest.
type image struct {
	*node
	opt, upper, work string
	lower            string
}

// newImage bakes the node's payload into an image and mounts it.
func newImage(t *testing.T, n *node) *image {
	t.Helper()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "mksquashfs", "squashfs-tools")

	dir := t.TempDir()
	i := &image{
		node: n, opt: filepath.Join(dir, "opt"), lower: filepath.Join(dir, "lower"),
		upper: filepath.Join(dir, "rw", "opt-diff"), work: filepath.Join(dir, "rw", "opt-work"),
	}

	for _, d := range []string{i.opt, i.lower, filepath.Join(dir, "rw")} {
		must(t, os.MkdirAll(d, 0o755))
	}

	// An upper directory cannot lie on an overlay, which a container's own root may be.
	mount(t, "tmpfs", filepath.Join(dir, "rw"), "tmpfs", 0, "")
	must(t, os.Mkdir(i.upper, 0o755))
	must(t, os.Mkdir(i.work, 0o755))
	t.Cleanup(i.unmount)

	i.boot(n.source)
	n.dest = filepath.Join(i.opt, "cni", "bin")

	return i
}

// boot mounts an image with these plugins over the same upper directory, as after an upgrade.
func (i *image) boot(source string) {
	i.Helper()
	i.unmount()

	tree, file := i.TempDir(), filepath.Join(i.TempDir(), "image.sqsh")
	must(i, os.Mkdir(filepath.Join(tree, "cni"), 0o755))
	must(i, os.CopyFS(filepath.Join(tree, "cni", "bin"), os.DirFS(source)))
	command(i, "mksquashfs", tree, file, "-all-root", "-noappend", "-quiet", "-no-progress")
	command(i, "mount", "-o", "loop,ro", file, i.lower)

	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", i.lower, i.upper, i.work)
	testplugins.Need(i, unix.Mount("overlay", i.opt, "overlay", 0, options), "a mount of overlay")
}

func (i *image) unmount() {
	for _, dir := range []string{i.opt, i.lower} {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
}

// inUpper lists the upper directory's part for the bin directory.
func (i *image) inUpper() []string {
	entries, err := os.ReadDir(filepath.Join(i.upper, "cni", "bin"))
	if os.IsNotExist(err) {
		return nil
	}

	must(i, err)

	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}

	return names
}

func (i *image) unshadow(act bool, edit ...func(*UnshadowOptions)) *Unshadowing {
	i.Helper()

	o := UnshadowOptions{Source: i.source, Dest: i.dest, Upper: i.upper, Act: act}
	for _, e := range edit {
		e(&o)
	}

	u, err := Unshadow(i.Context(), o)
	must(i, err)

	return u
}

func (i *image) verifyUpper() map[string]string {
	i.Helper()

	seen := map[string]string{}
	for _, c := range i.verify(func(o *VerifyOptions) { o.Upper = i.upper }).Plugins {
		seen[c.Name] = strings.TrimSpace(fmt.Sprintf("%s %s", c.State, c.Shadow))
	}

	return seen
}

func (i *image) whiteout(name string) {
	i.Helper()
	must(i, os.Remove(filepath.Join(i.dest, name)))

	var st unix.Stat_t

	must(i, unix.Lstat(filepath.Join(i.upper, "cni", "bin", name), &st))

	if !isWhiteout(st) {
		i.Fatal("the deletion left no whiteout")
	}
}

func TestOverlayStaysEmptyWhenAllIsRight(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t))
	report := i.install()

	equal(t, "changed", report.Changed, false)

	entries, err := os.ReadDir(i.upper)
	must(t, err)
	equal(t, "upper directory", len(entries), 0)
	equal(t, "verified", i.verifyUpper(), map[string]string{"static": "right", "tuning": "right"})

	// Another build of the same pin from the container is no reason to hide the baked one.
	i.rebuild("static", "tuning")
	equal(t, "changed", i.install().Changed, false)

	entries, err = os.ReadDir(i.upper)
	must(t, err)
	equal(t, "upper directory", len(entries), 0)
}

func TestOverlayShadowsAreFoundAndRemoved(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t, "bridge", "host-local", "static", "tuning", "vrf"))
	baked := snapshot(t, i.dest)

	// Somebody copied a stale bridge and an equal static, deleted tuning, and has a plugin of their own.
	i.put("bridge", "stale", 0o755)
	testplugins.Copy(t, filepath.Join(i.source, "static"), filepath.Join(i.dest, "static"))
	i.whiteout("tuning")
	i.put("flannel", "theirs", 0o755)
	must(t, os.Remove(filepath.Join(i.dest, "vrf")))
	must(t, os.Symlink("bridge", filepath.Join(i.dest, "vrf")))

	equal(t, "verified", i.verifyUpper(), map[string]string{
		"bridge": "hidden differing", "host-local": "right", "static": "right same", "tuning": "missing whiteout", "vrf": "hidden differing",
	})
	equal(t, "good", i.verify(func(o *VerifyOptions) { o.Upper = i.upper }).Good, false)

	before := i.inUpper()
	shown := i.unshadow(false)
	equal(t, "changed", shown.Changed, false)
	equal(t, "upper directory after a dry run", i.inUpper(), before)

	done := i.unshadow(true)
	equal(t, "changed", done.Changed, true)
	equal(t, "shown", len(shown.Plugins), 4)
	equal(t, "upper directory", i.inUpper(), []string{"flannel"})

	i.boot(i.source)

	for name, what := range baked {
		equal(t, name, snapshot(t, i.dest)[name], what)
	}

	// And the next image is not hidden either.
	i.rebuild("bridge", "static")
	i.boot(i.source)
	equal(t, "verified", i.verify(func(o *VerifyOptions) { o.Upper, o.Exact = i.upper, true }).Good, true)

	out, err := exec.Command(filepath.Join(i.dest, "bridge")).CombinedOutput()
	if err == nil && !strings.Contains(string(out), "CNI bridge plugin") {
		t.Errorf("bridge says %s", out)
	}

	equal(t, "nothing left", len(i.unshadow(true).Plugins), 0)
}

func TestOverlaySameShadowIsGood(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t))
	testplugins.Copy(t, filepath.Join(i.source, "static"), filepath.Join(i.dest, "static"))

	v := i.verify(func(o *VerifyOptions) { o.Upper = i.upper })
	equal(t, "good", v.Good, true)
	equal(t, "shadow", v.Plugins[0].Shadow, Same)

	// The container's build of the same pin is a same shadow too.
	i.rebuild("tuning")
	i.install(func(o *InstallOptions) { o.Exact = true })
	equal(t, "verified", i.verifyUpper(), map[string]string{"static": "right same", "tuning": "right same"})
}

func TestOverlayUnshadowRemovesNoLastCopy(t *testing.T) {
	t.Parallel()

	// The image has no plugins; all that there is lies in the upper directory, manifest included.
	n := newNode(t)
	full := n.source
	n.source = t.TempDir()
	i := newImage(t, n)
	n.source = full

	must(t, os.CopyFS(i.dest, os.DirFS(full)))

	before := snapshot(t, i.dest)
	u := i.unshadow(true)
	equal(t, "found", len(u.Plugins), 0)
	equal(t, "directory", snapshot(t, i.dest), before)

	if len(u.Notes) == 0 || !strings.Contains(u.Notes[0], payload.ManifestName) {
		t.Errorf("the notes do not say why: %s", u.Notes)
	}
}

func TestOverlayUnshadowNamesOfTheDistribution(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "static")
	must(t, os.Remove(filepath.Join(n.source, payload.ManifestName)))
	i := newImage(t, n)

	i.put("bridge", "stale", 0o755)
	i.put("static", "stale", 0o755)

	talos, err := distro.Lookup("talos")
	must(t, err)

	i.unshadow(true, func(o *UnshadowOptions) { o.Distro = talos })
	equal(t, "upper directory", i.inUpper(), []string{"static"})
}

func TestOverlayHidesTheWholeDirectory(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t))
	must(t, os.RemoveAll(i.dest))
	must(t, os.Mkdir(i.dest, 0o755))

	v := i.verify(func(o *VerifyOptions) { o.Upper = i.upper })
	equal(t, "good", v.Good, false)

	if !strings.Contains(strings.Join(v.Notes, "\n"), "is opaque") {
		t.Errorf("the notes do not say why: %s", v.Notes)
	}
}

func TestOverlayUninstallLeavesNoWhiteout(t *testing.T) {
	t.Parallel()

	// The image holds bridge and tuning; the payload brings a newer tuning, and static.
	n := newNode(t, "bridge", "static", "tuning")
	full := n.source
	n.source = testplugins.Payload(t, testplugins.Stripped, "bridge", "tuning")
	i := newImage(t, n)
	n.source = full
	before := snapshot(t, i.dest)
	n.rebuild("tuning")
	n.install(func(o *InstallOptions) { o.Exact = true })

	report := n.uninstall()

	// Here the mount table shows that no layer below holds static, so that it can go.
	equal(t, "actions", actions(report), map[string]string{"static": "removed", "tuning": "restored"})
	equal(t, "directory", snapshot(t, i.dest), before)
	equal(t, "upper directory", i.inUpper(), []string{"tuning"})
}

func TestOverlayUninstallRefusesToMakeAWhiteout(t *testing.T) {
	t.Parallel()

	n := newNode(t, "bridge", "static")
	full := n.source
	n.source = testplugins.Payload(t, testplugins.Stripped, "bridge")
	i := newImage(t, n)
	n.source = full
	n.install()

	// The next image holds static itself.
	i.boot(full)

	report := n.uninstall()
	equal(t, "action", report.Plugins[0].Action, Left)
	equal(t, "directory", snapshot(t, i.dest)["static"], n.staged()["static"])

	if text := reason(report, "static"); !strings.Contains(text, "lower layer holds static") {
		t.Errorf("the reason is no help: %s", text)
	}

	if notes := strings.Join(report.Notes, "\n"); !strings.Contains(notes, filepath.Join(i.upper, "cni/bin")) || !strings.Contains(notes, "reboot") {
		t.Errorf("the notes give no procedure: %s", notes)
	}
}

// Where the overlay is mounted over its own lower directory, as on Talos, nothing can be told.
func TestOverlayUninstallRefusesWhereItCannotTell(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t)
	dir := t.TempDir()
	opt, rw := filepath.Join(dir, "opt"), filepath.Join(dir, "rw")
	must(t, os.MkdirAll(filepath.Join(opt, "cni", "bin"), 0o755))
	mount(t, "tmpfs", rw, "tmpfs", 0, "")

	for _, d := range []string{"diff", "work"} {
		must(t, os.Mkdir(filepath.Join(rw, d), 0o755))
	}

	mount(t, "overlay", opt, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/diff,workdir=%s/work", opt, rw, rw))
	n.dest = filepath.Join(opt, "cni", "bin")
	n.install()

	report := n.uninstall()
	equal(t, "directory", snapshot(t, n.dest), n.staged())
	equal(t, "action", report.Plugins[0].Action, Left)

	if text := reason(report, "static"); !strings.Contains(text, "may hold static") {
		t.Errorf("the reason is no help: %s", text)
	}
}

// Whoever names another directory than the upper one must not lose the node's plugins.
func TestOverlayUnshadowRefusesAnotherDirectory(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t, "bridge", "static"))
	baked := snapshot(t, i.dest)
	copied := filepath.Join(t.TempDir(), "cni", "bin")
	must(t, os.CopyFS(copied, os.DirFS(i.dest)))
	i.whiteout("static")

	talos, err := distro.Lookup("talos")
	must(t, err)

	try := func(dest, upper string) {
		t.Helper()

		if _, err := Unshadow(t.Context(), UnshadowOptions{Dest: dest, Upper: upper, Distro: talos, Act: true}); err == nil {
			t.Errorf("%s is taken for the upper directory", upper)
		}
	}

	for _, upper := range []string{i.opt, i.dest, "/", i.lower, filepath.Dir(i.upper), filepath.Dir(filepath.Dir(copied)), "/proc"} {
		try(i.dest, upper)

		if _, err := Verify(t.Context(), VerifyOptions{Dest: i.dest, Upper: upper}); err == nil {
			t.Errorf("%s is taken for the upper directory", upper)
		}
	}

	try(copied, filepath.Dir(filepath.Dir(copied)))
	equal(t, "another directory", snapshot(t, copied), baked)
	equal(t, "bridge", snapshot(t, i.dest)["bridge"], baked["bridge"])
	equal(t, "upper directory", i.inUpper(), []string{"static"})
}

// Where the upper directory was changed behind the overlay's back, nothing can be told until a reboot.
func TestOverlayUnshadowLeavesWhatIsNotShown(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t, "bridge", "static"))
	i.put("static", "seen", 0o755)
	i.snapshotOf("static")
	write(t, filepath.Join(i.upper, "cni", "bin", "bridge"), "never seen", 0o755)

	u := i.unshadow(true)
	equal(t, "good", u.Good(), false)
	equal(t, "upper directory", i.inUpper(), []string{"bridge"})
}

// snapshotOf makes the overlay look a name up, and remember it.
func (i *image) snapshotOf(name string) string { return snapshot(i, i.dest)[name] }

func TestOverlayUninstallSaysWhatHidesTheImage(t *testing.T) {
	t.Parallel()

	i := newImage(t, newNode(t))
	i.rebuild("static")
	i.install(func(o *InstallOptions) { o.Exact = true })

	report := i.uninstall()
	equal(t, "actions", actions(report), map[string]string{"static": "restored"})

	if text := strings.Join(report.Notes, "\n"); !strings.Contains(text, "hides") || !strings.Contains(text, "static") {
		t.Errorf("the notes do not say so: %s", text)
	}
}

// The name of a directory that was renamed through the overlay is another one in the layer below.
func TestOverlayUninstallRefusesBelowARenamedDirectory(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	n := newNode(t, "static")
	dir := t.TempDir()
	rw, opt := filepath.Join(dir, "rw"), filepath.Join(dir, "opt")
	must(t, os.Mkdir(opt, 0o755))
	mount(t, "tmpfs", rw, "tmpfs", 0, "")

	for _, d := range []string{"lower/old", "diff", "work"} {
		must(t, os.MkdirAll(filepath.Join(rw, d), 0o755))
	}

	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/diff,workdir=%[1]s/work,redirect_dir=on", rw)
	mount(t, "overlay", opt, "overlay", 0, options)

	n.dest = filepath.Join(opt, "bin")
	must(t, os.Rename(filepath.Join(opt, "old"), n.dest))
	n.install()

	// As the next image would.
	must(t, unix.Unmount(opt, 0))
	write(t, filepath.Join(rw, "lower", "old", "static"), "baked", 0o755)
	mount(t, "overlay", opt, "overlay", 0, options)

	equal(t, "action", n.uninstall().Plugins[0].Action, Left)
	equal(t, "directory", snapshot(t, n.dest), n.staged())
}
