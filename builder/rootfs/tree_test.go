package rootfs_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/rootfs"
)

func add(t *testing.T, tree *rootfs.Tree, name string, mode fs.FileMode, content string) {
	t.Helper()

	if err := tree.Add(name, mode, rootfs.Bytes([]byte(content))); err != nil {
		t.Fatal(err)
	}
}

func paths(tree *rootfs.Tree) []string {
	var all []string
	for _, entry := range tree.Entries() {
		all = append(all, entry.Path)
	}

	return all
}

// TestOrder: what a directory holds follows it at once, even where the bytes of the path sort otherwise
// ("." and "-" come before "/").
func TestOrder(t *testing.T) {
	t.Parallel()

	tree := &rootfs.Tree{}
	for _, name := range []string{"a.b/c", "a/c/d", "a-b", "a/b", "a0", "a/b.c", "manifest.yaml"} {
		add(t, tree, name, 0o644, "")
	}

	want := []string{"a/b", "a/b.c", "a/c/d", "a-b", "a.b/c", "a0", "manifest.yaml"}
	if diff := cmp.Diff(want, paths(tree)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}

	if err := tree.AddParents(); err != nil {
		t.Fatal(err)
	}

	want = []string{"a", "a/b", "a/b.c", "a/c", "a/c/d", "a-b", "a.b", "a.b/c", "a0", "manifest.yaml"}
	if diff := cmp.Diff(want, paths(tree)); diff != "" {
		t.Errorf("order with parents (-want +got):\n%s", diff)
	}

	for _, entry := range tree.Entries() {
		if entry.Dir && entry.Mode != 0o755 {
			t.Errorf("directory %s has mode %o", entry.Path, entry.Mode)
		}
	}
}

func TestBadPaths(t *testing.T) {
	t.Parallel()

	for _, name := range []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "./a", "../a", "a/../b", "a/..", "a/./b", "a\\b", "a\x00b", "a\xff",
	} {
		tree := &rootfs.Tree{}

		if err := tree.Add(name, 0o644, rootfs.Bytes(nil)); err == nil {
			t.Errorf("a file at %q is accepted", name)
		}

		if err := tree.AddDir(name); err == nil {
			t.Errorf("a directory at %q is accepted", name)
		}

		if got := paths(tree); got != nil {
			t.Errorf("%q left %q in the tree", name, got)
		}
	}
}

func TestCollisions(t *testing.T) {
	t.Parallel()

	file := func(name string) func(*rootfs.Tree) error {
		return func(tree *rootfs.Tree) error { return tree.Add(name, 0o644, rootfs.Bytes(nil)) }
	}

	dir := func(name string) func(*rootfs.Tree) error {
		return func(tree *rootfs.Tree) error { return tree.AddDir(name) }
	}

	tests := map[string]struct {
		first, second func(*rootfs.Tree) error
		want          string
	}{
		"file twice":              {file("a/b"), file("a/b"), "a/b is already in the tree"},
		"file, then directory":    {file("a"), dir("a"), "a is already in the tree"},
		"directory, then file":    {dir("a"), file("a"), "a is already in the tree"},
		"directory twice":         {dir("a"), dir("a"), ""},
		"file, then below it":     {file("a"), file("a/b/c"), "a/b/c cannot lie below the file a"},
		"directory below a file":  {file("a"), dir("a/b"), "a/b cannot lie below the file a"},
		"file, then above it":     {file("a/b/c"), file("a"), "a/b/c cannot lie below the file a"},
		"directory above":         {file("a/b/c"), dir("a"), ""},
		"name that only looks so": {file("a/b"), file("a/bc"), ""},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tree := &rootfs.Tree{}
			if err := test.first(tree); err != nil {
				t.Fatal(err)
			}

			got := ""
			if err := test.second(tree); err != nil {
				got = err.Error()
			}

			if got != test.want {
				t.Errorf("error is %q, want %q", got, test.want)
			}
		})
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()

	tree := &rootfs.Tree{}
	add(t, tree, "opt/cni/bin/bridge", 0o755, "x")
	add(t, tree, "manifest.yaml", 0o644, "y")

	if err := tree.AddParents(); err != nil {
		t.Fatal(err)
	}

	tree.Label("security.selinux", func(name string) string {
		if name == "manifest.yaml" {
			return ""
		}

		return "label of " + name
	})
	tree.Label("user.other", func(string) string { return "o" })

	got := make(map[string]map[string]string)
	for _, entry := range tree.Entries() {
		got[entry.Path] = entry.Xattrs
	}

	want := map[string]map[string]string{"manifest.yaml": {"user.other": "o"}}
	for _, name := range []string{"opt", "opt/cni", "opt/cni/bin", "opt/cni/bin/bridge"} {
		want[name] = map[string]string{"security.selinux": "label of " + name, "user.other": "o"}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}
