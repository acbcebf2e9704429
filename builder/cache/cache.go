// Package cache keeps files that are expensive to make, in the user's cache directory: downloads,
// compiled plugins, compressed layers. Content is verified on every use, writing is by rename, and
// the whole is bounded: what was not used for longest goes first. Several processes may share it.
package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultLimit is the size in bytes beyond which old entries go.
const DefaultLimit = 2 << 30

// Cache is a directory of files by key.
type Cache struct {
	dir   string
	limit int64
}

// New returns the cache in a directory, which is made on first use, bounded to limit bytes.
func New(dir string, limit int64) *Cache {
	return &Cache{dir: dir, limit: limit}
}

// Dir is the cache's directory.
func (c *Cache) Dir() string {
	return c.dir
}

// Entry is one cached file.
type Entry struct {
	// Path of the file. It stays valid while the process works; nothing may write to it.
	Path string
	// Digest is the SHA-256 sum of the content in hexadecimal, Size its length in bytes.
	Digest string
	Size   int64
	// Note is what the maker said about the file.
	Note string
}

// maxNote keeps file names, which carry key, digest and note, below the 255 bytes of any file system.
const maxNote = 80

// File returns the file of a key, made by fill on first use. fill writes to the given path and
// returns a note that is kept with the file: at most 80 letters, digits, dots and dashes. An entry whose
// content is no longer what was written is made anew.
func (c *Cache) File(ctx context.Context, kind, key string, fill func(ctx context.Context, path string) (note string, err error)) (Entry, error) {
	sum := sha256.Sum256([]byte(key))
	id := hex.EncodeToString(sum[:])
	dir := filepath.Join(c.dir, kind)

	entry, damaged, ok := lookup(dir, id)
	if ok {
		return entry, nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Entry{}, fmt.Errorf("making cache directory: %w", err)
	}

	temporary, err := os.CreateTemp(dir, temporaryPrefix+"*")
	if err != nil {
		return Entry{}, fmt.Errorf("writing to cache: %w", err)
	}

	temporary.Close()
	defer os.Remove(temporary.Name())

	note, err := fill(ctx, temporary.Name())
	if err != nil {
		return Entry{}, err
	}

	if len(note) > maxNote || strings.ContainsAny(note, "/_\x00") {
		return Entry{}, fmt.Errorf("cache note %q is too long or has other characters than letters, digits, dots and dashes", note)
	}

	entry, err = digest(temporary.Name())
	if err != nil {
		return Entry{}, err
	}

	entry.Note = note
	entry.Path = filepath.Join(dir, strings.Join([]string{id, entry.Digest, note}, "_"))

	if err := os.Rename(temporary.Name(), entry.Path); err != nil {
		return Entry{}, fmt.Errorf("writing to cache: %w", err)
	}

	for _, name := range damaged {
		if name != entry.Path {
			_ = os.Remove(name) // never served, and prune takes what cannot go now
		}
	}

	return entry, c.prune(entry.Path)
}

// Clean removes everything the cache holds and returns how many bytes that were.
func (c *Cache) Clean() (int64, error) {
	var total int64

	files, err := c.files()
	if err != nil {
		return 0, err
	}

	for _, file := range files {
		total += file.size
	}

	return total, os.RemoveAll(c.dir)
}

const temporaryPrefix = ".partial-"

// lookup finds the entry of an id whose content still has the digest in its name, and those whose
// content has not. It removes nothing: another process may be repairing the same entry, under the same name.
func lookup(dir, id string) (entry Entry, damaged []string, ok bool) {
	// Not a glob: the directory's name may hold what globs read as patterns.
	files, err := os.ReadDir(dir)
	if err != nil {
		return Entry{}, nil, false
	}

	for _, file := range files {
		parts := strings.SplitN(file.Name(), "_", 3)
		if parts[0] != id {
			continue
		}

		name := filepath.Join(dir, file.Name())

		entry, err := digest(name)
		if err != nil || len(parts) != 3 || entry.Digest != parts[1] {
			damaged = append(damaged, name)

			continue
		}

		now := time.Now()
		_ = os.Chtimes(name, now, now) // prune goes by it; a read-only cache still serves

		entry.Note = parts[2]

		return entry, nil, true
	}

	return Entry{}, damaged, false
}

type cachedFile struct {
	path string
	size int64
	used time.Time
}

func (c *Cache) files() ([]cachedFile, error) {
	var files []cachedFile

	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // another process removed it
		case err != nil:
			return err
		case !d.Type().IsRegular():
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // removed in between
		}

		files = append(files, cachedFile{path: path, size: info.Size(), used: info.ModTime()})

		return nil
	})

	return files, err
}

// prune removes the entries that were not used for longest until the rest fits the limit. What this
// or another running build may still read stays: everything used within the last hour.
func (c *Cache) prune(keep string) error {
	files, err := c.files()
	if err != nil {
		return fmt.Errorf("bounding the cache: %w", err)
	}

	var total int64
	for _, file := range files {
		total += file.size
	}

	slices.SortFunc(files, func(a, b cachedFile) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})

	for _, file := range files {
		if total <= c.limit || time.Since(file.used) < time.Hour {
			break
		}

		if file.path != keep && os.Remove(file.path) == nil {
			total -= file.size
		}
	}

	return nil
}

func digest(path string) (Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return Entry{}, err
	}
	defer file.Close()

	hash := sha256.New()

	size, err := io.Copy(hash, file)
	if err != nil {
		return Entry{}, fmt.Errorf("reading %s: %w", path, err)
	}

	return Entry{Path: path, Digest: hex.EncodeToString(hash.Sum(nil)), Size: size}, nil
}
