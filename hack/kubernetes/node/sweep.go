package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Nodes are not in /tmp, which is often a file system in memory.
const (
	parent = "/var/tmp"
	prefix = "cnibake-node-"
)

// stale is an age that no running test has.
const stale = 2 * time.Hour

// sweep removes the files and cgroups of nodes whose test was killed. Processes and mounts of such a
// node are gone already.
func sweep(t testing.TB) {
	dirs, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}

	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < stale {
			continue
		}

		n := &Node{dir: dir, Cgroup: cgroup(dir)}
		if err := n.removeCgroups(); err != nil {
			t.Logf("a killed test has left %v", err)

			continue
		}

		if err := os.RemoveAll(dir); err != nil {
			t.Logf("a killed test has left %v", err)
		}
	}
}
