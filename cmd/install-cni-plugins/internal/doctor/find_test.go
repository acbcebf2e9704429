package doctor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/invoke"
	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// layout is a made-up tree in which plugins are looked for.
type layout struct {
	root string
	dirs []string // the directories to search, as paths within the root
}

var layoutNames = []string{"bridge", "host-local", "a", "b", "with space", "..x", "ü"}

// newLayout makes a tree of directories, files, special files and symlinks that lead anywhere.
func newLayout(t testing.TB, root string, r *rand.Rand) layout {
	t.Helper()

	dirs := []string{"/opt/cni/bin", "/opt/cni", "/usr/lib/cni", "/srv", "/srv/deep/er"}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	targets := func() string {
		dir, name := dirs[r.IntN(len(dirs))], layoutNames[r.IntN(len(layoutNames))]

		return []string{
			dir, dir + "/" + name, dir + "/" + name + "/", dir + "/../" + name, "../" + name, name, "./" + name, ".", "..", "/",
			"../../../../../../.." + dir + "/" + name, "../bin/" + name, "/none/" + name, dir + "//" + name + "/.", root + dir + "/" + name,
		}[r.IntN(15)]
	}

	for range 60 {
		path := filepath.Join(root, dirs[r.IntN(len(dirs))], layoutNames[r.IntN(len(layoutNames))])

		// What is there already stays.
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, []os.FileMode{0o755, 0o644, 0}[r.IntN(3)]); err == nil {
				f.Close()
			}
		case 4:
			_ = os.Mkdir(path, 0o755)
		case 5:
			_ = unix.Mkfifo(path, 0o755)
		default:
			_ = os.Symlink(targets(), path)
		}
	}

	// The directories that are searched may be symlinks themselves, missing, or files.
	search := []string{"/opt/cni/bin", "/none"}
	for i := range 3 {
		path := fmt.Sprintf("/dir%d", i)
		_ = os.Symlink(targets(), filepath.Join(root, path))
		search = append(search, path, dirs[r.IntN(len(dirs))]+"/"+layoutNames[r.IntN(len(layoutNames))], dirs[r.IntN(len(dirs))]+"/../bin/./")
	}

	r.Shuffle(len(search), func(i, j int) { search[i], search[j] = search[j], search[i] })

	return layout{root, search[:1+r.IntN(len(search))]}
}

// askedFor are names that configurations may ask for.
var askedFor = slices.Concat(layoutNames, []string{"", ".", "..", "a/b", "/a", "bridge/", "a\x00b", "none", "../bin/a"})

// within runs f with another root directory, in a thread of its own that ends with it.
func within(t testing.TB, root string, f func()) {
	t.Helper()

	failed := make(chan error)

	go func() {
		runtime.LockOSThread() // and never unlocked

		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(root)
		}

		if err == nil {
			err = unix.Chdir("/")
		}

		if err == nil {
			f()
		}

		failed <- err
	}()

	testplugins.Need(t, <-failed, "changing the root")
}

// Names are found exactly where libcni finds them: on the node itself, and after a chroot to its root.
func TestFindIsLibcnis(t *testing.T) {
	t.Parallel()

	var found, missed int

	compare := func(t *testing.T, seed uint64, l layout, v *view) {
		for _, name := range askedFor {
			want, err := invoke.FindInPath(name, l.dirs)
			tried, i := v.find(name, l.dirs)

			got := ""
			if i >= 0 {
				got = tried[i].path
			}

			if got != want {
				t.Errorf("seed %d: %q in %q is found at %q, libcni says %q (%v)", seed, name, l.dirs, got, want, err)
			}

			if want == "" {
				missed++
			} else {
				found++
			}
		}
	}

	t.Run("node", func(t *testing.T) {
		for seed := range uint64(50) {
			l := newLayout(t, t.TempDir(), rand.New(rand.NewPCG(seed, 1)))
			for i, dir := range l.dirs {
				l.dirs[i] = l.root + dir
			}

			compare(t, seed, l, rootView("/"))
		}
	})

	t.Run("chroot", func(t *testing.T) {
		testplugins.NeedRoot(t)

		for seed := range uint64(50) {
			l := newLayout(t, t.TempDir(), rand.New(rand.NewPCG(seed, 2)))

			// The view is asked before, by paths of this root.
			v := rootView(l.root)
			got := map[string]string{}

			for _, name := range askedFor {
				if tried, i := v.find(name, l.dirs); i >= 0 {
					got[name] = tried[i].path
				}
			}

			within(t, l.root, func() {
				for _, name := range askedFor {
					if want, err := invoke.FindInPath(name, l.dirs); got[name] != want {
						t.Errorf("seed %d: %q in %q is found at %q, libcni in a chroot says %q (%v)", seed, name, l.dirs, got[name], want, err)
					}
				}
			})
		}
	})

	if found < 80 || missed < 80 {
		t.Errorf("%d names were found and %d not: the layouts prove too little", found, missed)
	}
}

// What a container sees through its mounts is what a process sees that has just these mounted.
func TestMountedViewIsTheKernels(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newLayout(t, t.TempDir(), r)
		node, inside := rootView(l.root), t.TempDir()

		var mounts []mount

		for _, pair := range [][2]string{{"/opt/cni/bin", "/opt/cni/bin"}, {"/opt", "/opt"}, {"/srv", "/srv"}, {"/usr/lib/cni", "/opt/cni/bin"}, {"/", "/hostroot"}} {
			if f, err := node.resolve(pair[0]); err == nil && f.isDir() && r.IntN(2) == 0 {
				mounts = append(mounts, mount{pair[1], f.real})
			}
		}

		// Parents first, as a runtime mounts them; of two at one place the later one is seen.
		slices.SortStableFunc(mounts, func(a, b mount) int { return len(a.at) - len(b.at) })

		v := &view{mounts}
		got := map[string]string{}

		for _, name := range askedFor {
			if tried, i := v.find(name, l.dirs); i >= 0 {
				got[name] = tried[i].path
			}
		}

		inContainer(t, inside, mounts, func() {
			for _, name := range askedFor {
				if want, _ := invoke.FindInPath(name, l.dirs); got[name] != want {
					t.Errorf("seed %d: %q in %q is found at %q, in a container with %v at %q", seed, name, l.dirs, got[name], mounts, want)
				}
			}
		})
	}
}

// inContainer runs f with a root that has nothing but some mounts, in a mount namespace of its own.
func inContainer(t testing.TB, root string, mounts []mount, f func()) {
	t.Helper()

	failed := make(chan error)

	go func() {
		runtime.LockOSThread()

		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}

		if err == nil {
			err = unix.Mount("tmpfs", root, "tmpfs", 0, "")
		}

		for _, m := range mounts {
			if err == nil {
				err = os.MkdirAll(filepath.Join(root, m.at), 0o755)
			}

			if err == nil {
				err = unix.Mount(m.real, filepath.Join(root, m.at), "", unix.MS_BIND, "")
			}
		}

		if err == nil {
			err = unix.Chroot(root)
		}

		if err == nil {
			f()
		}

		failed <- err
	}()

	testplugins.Need(t, <-failed, "making a container's mounts")
}
