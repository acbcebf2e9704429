package cache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/cache"
)

// filler writes content and counts how often it is asked to.
type filler struct {
	content, note string
	calls         atomic.Int32
}

func (f *filler) fill(_ context.Context, path string) (string, error) {
	f.calls.Add(1)

	return f.note, os.WriteFile(path, []byte(f.content), 0o644)
}

func get(t *testing.T, c *cache.Cache, key string, f *filler) cache.Entry {
	t.Helper()

	entry, err := c.File(t.Context(), "kind", key, f.fill)
	if err != nil {
		t.Fatal(err)
	}

	checkEntry(t, entry, f)

	return entry
}

func checkEntry(t *testing.T, entry cache.Entry, f *filler) {
	t.Helper()

	data, err := os.ReadFile(entry.Path)
	if err != nil {
		t.Error(err)
	}

	sum := sha256.Sum256([]byte(f.content))
	want := cache.Entry{Path: entry.Path, Digest: hex.EncodeToString(sum[:]), Size: int64(len(f.content)), Note: f.note}

	if diff := cmp.Diff(want, entry); diff != "" || string(data) != f.content {
		t.Errorf("content is right: %t; entry (-want +got):\n%s", string(data) == f.content, diff)
	}
}

// files lists the regular files below a directory, in lexical order.
func files(t *testing.T, dir string) []string {
	t.Helper()

	var all []string

	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}

		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}

	return all
}

func TestFilledOnce(t *testing.T) {
	t.Parallel()

	// What a shell or a glob would take for a pattern is an ordinary directory.
	c := cache.New(filepath.Join(t.TempDir(), "not there yet [1] *"), cache.DefaultLimit)
	f := &filler{content: "plugin", note: "a-note.1"}

	first, second := get(t, c, "key", f), get(t, c, "key", f)
	if diff := cmp.Diff(first, second); diff != "" || f.calls.Load() != 1 {
		t.Errorf("filled %d times; entries (-first +second):\n%s", f.calls.Load(), diff)
	}

	get(t, c, "other key", &filler{content: "other"})

	if _, err := c.File(t.Context(), "other", "key", f.fill); err != nil || f.calls.Load() != 2 {
		t.Errorf("another kind shares the key's file: %v", err)
	}

	if got := files(t, c.Dir()); len(got) != 3 {
		t.Errorf("the cache holds %q", got)
	}
}

// TestVerifiedOnUse: what is no longer what was written is made anew.
func TestVerifiedOnUse(t *testing.T) {
	t.Parallel()

	for name, damage := range map[string]func(path string) error{
		"flipped byte": func(path string) error { return os.WriteFile(path, []byte("pluGin"), 0o644) },
		"cut short":    func(path string) error { return os.Truncate(path, 3) },
		"emptied":      func(path string) error { return os.Truncate(path, 0) },
		"grown":        func(path string) error { return os.WriteFile(path, []byte("plugin\n"), 0o644) },
		"removed":      os.Remove,
		"renamed":      func(path string) error { return os.Rename(path, path[:len(path)-len("_note")]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := cache.New(t.TempDir(), cache.DefaultLimit)
			f := &filler{content: "plugin", note: "note"}

			entry := get(t, c, "key", f)
			if err := damage(entry.Path); err != nil {
				t.Fatal(err)
			}

			if again := get(t, c, "key", f); again != entry || f.calls.Load() != 2 {
				t.Errorf("filled %d times, entry %+v", f.calls.Load(), again)
			}

			if diff := cmp.Diff([]string{entry.Path}, files(t, c.Dir())); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	t.Parallel()

	broken := errors.New("broken connection")

	for name, test := range map[string]struct {
		note string
		err  error
	}{
		"fill fails":     {"", broken},
		"note too long":  {strings.Repeat("x", 81), nil},
		"note is a path": {"../x", nil},
		"note separates": {"a_b", nil},
		"note with NUL":  {"a\x00b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := cache.New(t.TempDir(), cache.DefaultLimit)

			_, err := c.File(t.Context(), "kind", "key", func(_ context.Context, path string) (string, error) {
				return test.note, errors.Join(os.WriteFile(path, []byte("half"), 0o644), test.err)
			})
			if err == nil || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("error is %v", err)
			}

			if got := files(t, c.Dir()); got != nil {
				t.Errorf("left %q", got)
			}
		})
	}
}

func TestCannotBeMade(t *testing.T) {
	t.Parallel()

	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	f := &filler{}
	if _, err := cache.New(name, cache.DefaultLimit).File(t.Context(), "kind", "key", f.fill); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error is %v", err)
	}
}

// TestConcurrentUse: any number of users of one key get a whole file, also while each of them finds
// and repairs the same damaged one.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()

	for round := range 20 {
		c := cache.New(t.TempDir(), cache.DefaultLimit)
		f := &filler{content: strings.Repeat("plugin", 10_000), note: "n"}

		if round%2 == 1 {
			if err := os.Truncate(get(t, c, "key", f).Path, 100); err != nil {
				t.Fatal(err)
			}
		}

		var group sync.WaitGroup

		for range 8 {
			group.Go(func() {
				entry, err := c.File(t.Context(), "kind", "key", f.fill)
				if err != nil {
					t.Error(err)

					return
				}

				checkEntry(t, entry, f)
			})
		}

		group.Wait()

		if got := files(t, c.Dir()); len(got) != 1 {
			t.Errorf("the cache holds %q", got)
		}
	}
}

// TestOtherProcesses fills one cache from several processes at once, with a limit that is always exceeded.
func TestOtherProcesses(t *testing.T) {
	const keys = 20

	dir := os.Getenv("CNIBAKE_TEST_CACHE")
	if dir != "" {
		c := cache.New(dir, 1000)

		for i := range keys {
			get(t, c, strconv.Itoa(i), &filler{content: strings.Repeat(strconv.Itoa(i), 100_000), note: "n"})
		}

		return
	}

	t.Parallel()

	dir = t.TempDir()

	var group sync.WaitGroup

	for range 4 {
		group.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestOtherProcesses$")
			cmd.Env = append(os.Environ(), "CNIBAKE_TEST_CACHE="+dir)

			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}

	group.Wait()

	if got := files(t, dir); len(got) != keys {
		t.Errorf("the cache holds %d files, want %d", len(got), keys)
	}
}

// TestPrune: beyond the limit, what was not used for longest goes; what was used within the last hour
// may still be read by a running build and stays.
func TestPrune(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	c := cache.New(dir, 25)
	content := strings.Repeat("x", 10)
	entries := make(map[string]cache.Entry)

	for age, key := range []string{"now", "1h", "2h", "3h", "4h", "used"} {
		entry := get(t, cache.New(dir, cache.DefaultLimit), key, &filler{content: content + key})
		entries[key] = entry

		used := time.Now().Add(-time.Duration(age)*time.Hour - time.Minute)
		if err := os.Chtimes(entry.Path, used, used); err != nil {
			t.Fatal(err)
		}
	}

	get(t, c, "used", &filler{content: content + "used"}) // the oldest, until now

	partial := filepath.Join(dir, "kind", ".partial-killed")
	old := time.Now().Add(-100 * time.Hour)

	if err := errors.Join(os.WriteFile(partial, []byte(content), 0o600), os.Chtimes(partial, old, old)); err != nil {
		t.Fatal(err)
	}

	get(t, c, "new", &filler{content: content + "new"})

	for key, want := range map[string]bool{"now": true, "used": true, "1h": false, "2h": false, "3h": false, "4h": false} {
		if _, err := os.Stat(entries[key].Path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", key, err == nil, want)
		}
	}

	if _, err := os.Stat(partial); err == nil {
		t.Error("what a killed process left is still there")
	}
}

func TestPruneStopsAtTheLimit(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	first := get(t, cache.New(dir, cache.DefaultLimit), "first", &filler{content: "0123456789"})
	second := get(t, cache.New(dir, cache.DefaultLimit), "second", &filler{content: "0123456789"})

	for i, entry := range []cache.Entry{first, second} {
		used := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(entry.Path, used, used); err != nil {
			t.Fatal(err)
		}
	}

	get(t, cache.New(dir, 20), "third", &filler{content: "0123456789"})

	if _, err := os.Stat(first.Path); err == nil {
		t.Error("the oldest is still there")
	}

	if _, err := os.Stat(second.Path); err != nil {
		t.Errorf("more was removed than the limit asks for: %v", err)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()

	c := cache.New(filepath.Join(t.TempDir(), "cache"), cache.DefaultLimit)

	if freed, err := c.Clean(); err != nil || freed != 0 {
		t.Errorf("cleaning a cache that is not there frees %d bytes: %v", freed, err)
	}

	get(t, c, "a", &filler{content: "12345"})
	get(t, c, "b", &filler{content: string(bytes.Repeat([]byte("b"), 100))})

	if freed, err := c.Clean(); err != nil || freed != 105 {
		t.Errorf("cleaning frees %d bytes: %v", freed, err)
	}

	if _, err := os.Stat(c.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}
