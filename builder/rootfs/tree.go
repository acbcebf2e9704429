// Package rootfs holds a deterministic file tree and writes it as a tar archive: sorted paths, fixed
// modes, owner root, one time for everything, extended attributes as PAX records. It knows neither
// Talos nor OCI.
package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Tree is a set of regular files and directories under slash-separated relative paths. The zero
// value is an empty tree.
type Tree struct {
	entries map[string]*Entry
}

// Entry is one file or directory of a tree.
type Entry struct {
	// Path is relative, slash-separated and clean, without a trailing slash.
	Path string
	// Dir is set for directories, whose Content is empty.
	Dir bool
	// Mode holds the permission bits only.
	Mode fs.FileMode
	// Content of a regular file.
	Content Content
	// Xattrs are extended attributes by name, for example security.selinux.
	Xattrs map[string]string
}

// Content is the content of a regular file.
type Content struct {
	// Size is in bytes.
	Size int64
	// Digest identifies the bytes: two contents with equal digests are equal.
	Digest string
	open   func() (io.ReadCloser, error)
}

// Bytes returns the content that consists of these bytes.
func Bytes(data []byte) Content {
	sum := sha256.Sum256(data)

	return Content{
		Size:   int64(len(data)),
		Digest: "sha256:" + hex.EncodeToString(sum[:]),
		open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

// File returns the content of the named file, whose size and digest the caller knows. Writing the
// tree fails when the file no longer has them; an empty digest is not compared.
func File(name, digest string, size int64) Content {
	return Content{
		Size:   size,
		Digest: digest,
		open:   func() (io.ReadCloser, error) { return os.Open(name) },
	}
}

// Add puts a regular file into the tree. A path that is not clean and relative, or already taken,
// is an error.
func (t *Tree) Add(name string, mode fs.FileMode, content Content) error {
	return t.add(&Entry{Path: name, Mode: mode.Perm(), Content: content})
}

// AddDir puts a directory with mode 0755 into the tree, if it is not there yet.
func (t *Tree) AddDir(name string) error {
	if existing, ok := t.entries[name]; ok && existing.Dir {
		return nil
	}

	return t.add(&Entry{Path: name, Dir: true, Mode: 0o755})
}

// AddParents adds every missing parent directory of every entry, with mode 0755.
func (t *Tree) AddParents() error {
	for _, name := range t.paths() {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if err := t.AddDir(dir); err != nil {
				return err
			}
		}
	}

	return nil
}

// Label sets an extended attribute on every entry for which value returns one.
func (t *Tree) Label(attribute string, value func(name string) string) {
	for name, entry := range t.entries {
		if v := value(name); v != "" {
			if entry.Xattrs == nil {
				entry.Xattrs = make(map[string]string)
			}

			entry.Xattrs[attribute] = v
		}
	}
}

// Entries returns the entries sorted by path, so that a directory comes before what it holds.
func (t *Tree) Entries() []Entry {
	entries := make([]Entry, 0, len(t.entries))
	for _, name := range t.paths() {
		entries = append(entries, *t.entries[name])
	}

	return entries
}

func (t *Tree) add(entry *Entry) error {
	if !fs.ValidPath(entry.Path) || entry.Path == "." || strings.ContainsAny(entry.Path, "\x00\\") {
		return fmt.Errorf("%q is not a clean relative path", entry.Path)
	}

	if _, ok := t.entries[entry.Path]; ok {
		return fmt.Errorf("%s is already in the tree", entry.Path)
	}

	for _, other := range t.entries {
		// Either may have been added first.
		for _, pair := range [][2]*Entry{{entry, other}, {other, entry}} {
			if file, below := pair[0], pair[1]; !file.Dir && strings.HasPrefix(below.Path, file.Path+"/") {
				return fmt.Errorf("%s cannot lie below the file %s", below.Path, file.Path)
			}
		}
	}

	if t.entries == nil {
		t.entries = make(map[string]*Entry)
	}

	t.entries[entry.Path] = entry

	return nil
}

// paths returns the paths sorted by component, so that "a" and what is below it come before "a.b".
func (t *Tree) paths() []string {
	names := make([]string, 0, len(t.entries))
	for name := range t.entries {
		names = append(names, name)
	}

	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})

	return names
}
