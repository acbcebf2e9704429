package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroup is the cgroup of the node with this directory.
func cgroup(dir string) string { return "/" + filepath.Base(dir) }

// hierarchies are the directories below which cgroups are made: one for each controller, or one for all.
func hierarchies() ([]string, bool, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, true, nil
	}

	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, false, err
	}

	var dirs []string

	for _, entry := range entries {
		// Names of several controllers lead to one directory, by symlinks.
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(cgroupRoot, entry.Name()))
		}
	}

	return dirs, false, nil
}

func (n *Node) makeCgroups() error {
	dirs, unified, err := hierarchies()
	if err != nil {
		return err
	}

	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, n.Cgroup), 0o755); err != nil {
			return err
		}
	}

	if !unified {
		return nil
	}

	controllers, err := os.ReadFile(filepath.Join(cgroupRoot, n.Cgroup, "cgroup.controllers"))
	if err != nil {
		return err
	}

	enable := "+" + strings.Join(strings.Fields(string(controllers)), " +")

	return os.WriteFile(filepath.Join(cgroupRoot, n.Cgroup, "cgroup.subtree_control"), []byte(enable), 0)
}

// removeCgroups removes what is left of the node's pods. The kernel takes a moment until a cgroup
// whose last process has ended is free.
func (n *Node) removeCgroups() error {
	dirs, _, err := hierarchies()
	if err != nil {
		return err
	}

	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var failures error

		for _, dir := range dirs {
			failures = errors.Join(failures, removeTree(filepath.Join(dir, n.Cgroup)))
		}

		if failures == nil || time.Now().After(deadline) {
			return failures
		}
	}
}

func removeTree(root string) error {
	var dirs []string

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}

		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}
