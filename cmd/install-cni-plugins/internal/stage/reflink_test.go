package stage

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// newMerged is a node whose payload is one file for several names.
func newMerged(t *testing.T) (n *node, names []string, size int64) {
	t.Helper()

	n = newNode(t, "bridge")
	names = []string{"bridge", "ipvlan", "macvlan", "ptp", "vlan"}

	m, err := payload.ReadManifest(filepath.Join(n.source, payload.ManifestName))
	must(t, err)

	shared := m.Plugins[0]
	m.Plugins = nil

	for _, name := range names {
		shared.Name = name
		m.Plugins = append(m.Plugins, shared)
	}

	testplugins.WriteManifest(t, n.source, m)

	return n, names, shared.Size
}

// xfs is a directory on a file system that can share blocks.
func xfs(t *testing.T) string {
	t.Helper()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "mkfs.xfs", "xfsprogs")

	image, dir := filepath.Join(t.TempDir(), "xfs"), t.TempDir()

	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 512<<20))
	command(t, "mkfs.xfs", "-q", "-m", "reflink=1", image)
	command(t, "mount", "-o", "loop", image, dir)
	t.Cleanup(func() { unmount(t, dir) })

	return dir
}

// Names that share a program share its blocks where the file system can, and are files of their own
// all the same: writing through one does not change another.
func TestInstallSharesBlocks(t *testing.T) {
	t.Parallel()

	n, names, size := newMerged(t)
	n.dest = xfs(t)

	used := func() int64 {
		var st unix.Statfs_t

		must(t, unix.Statfs(n.dest, &st))

		return int64(st.Blocks-st.Bfree) * st.Bsize
	}

	before := used()
	// One after the other, or the first ones would be copied side by side.
	n.install(func(o *InstallOptions) { o.workers = 1 })

	if grown := used() - before; grown > 2*size {
		t.Errorf("%d names of %d bytes take %d bytes", len(names), size, grown)
	}

	equal(t, "files", len(snapshot(t, n.dest)), len(names))
	must(t, os.WriteFile(filepath.Join(n.dest, "ptp"), []byte("another writer, in place"), 0o755))

	for _, name := range names {
		same := fileDigest(t, filepath.Join(n.dest, name)) == fileDigest(t, filepath.Join(n.source, "bridge"))
		equal(t, name+" is as it was", same, name != "ptp")
	}
}

// A file that another writer changes in place at that moment is not what the next names become.
func TestInstallTakesNoChangedTwin(t *testing.T) {
	t.Parallel()

	n, names, _ := newMerged(t)
	n.dest = xfs(t)

	first := ""

	n.install(func(o *InstallOptions) {
		o.workers = 1
		o.system.before = func(call, path string) error {
			if call == "clone" && first == "" {
				first = names[0]
				write(t, filepath.Join(n.dest, first), "another writer, in place", 0o755)
			}

			return nil
		}
	})

	equal(t, "changed", first, names[0])

	for _, name := range names[1:] {
		equal(t, name, fileDigest(t, filepath.Join(n.dest, name)), fileDigest(t, filepath.Join(n.source, "bridge")))
	}
}

func TestInstallCopiesWhereNothingCanBeShared(t *testing.T) {
	t.Parallel()

	n, names, _ := newMerged(t)
	attempts := 0

	n.install(func(o *InstallOptions) {
		o.workers = 1
		o.system.before = func(call, _ string) error {
			if call != "clone" {
				return nil
			}

			attempts++

			return unix.EOPNOTSUPP
		}
	})

	equal(t, "attempts", attempts, len(names)-1)

	for _, name := range names {
		equal(t, name, fileDigest(t, filepath.Join(n.dest, name)), fileDigest(t, filepath.Join(n.source, "bridge")))
	}
}

func fileDigest(t *testing.T, name string) string {
	t.Helper()

	digest, _, err := payload.DigestFile(name)
	must(t, err)

	return digest
}
