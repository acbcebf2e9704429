package rootfs_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/rootfs"
)

var epoch = time.Unix(0, 0).UTC()

func tarOf(t *testing.T, tree *rootfs.Tree, modified time.Time) []byte {
	t.Helper()

	var out bytes.Buffer
	if err := tree.WriteTar(t.Context(), &out, modified); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// fileContent is the content of a new file.
func fileContent(t *testing.T, data string) (rootfs.Content, string) {
	t.Helper()

	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}

	sum := sha256.Sum256([]byte(data))

	return rootfs.File(name, "sha256:"+hex.EncodeToString(sum[:]), int64(len(data))), name
}

// entry is what this package's archives may hold of a header; everything else must be zero.
type entry struct {
	Name, Content string
	Type          byte
	Mode          int64
	Modified      time.Time
	PAX           map[string]string
}

func TestHeaders(t *testing.T) {
	t.Parallel()

	content, _ := fileContent(t, "plugin")
	tree := &rootfs.Tree{}

	// Whatever the mode says beyond permissions stays out.
	if err := tree.Add("opt/bridge", 0o755|fs.ModeSetuid|fs.ModeSticky, content); err != nil {
		t.Fatal(err)
	}

	if err := tree.AddParents(); err != nil {
		t.Fatal(err)
	}

	add(t, tree, "a", 0o644, "")
	tree.Label("security.selinux", func(name string) string { return map[string]string{"opt": "l:opt", "opt/bridge": "l:b=x"}[name] })

	modified := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	want := []entry{
		{Name: "a", Type: tar.TypeReg, Mode: 0o644, Modified: modified},
		{Name: "opt/", Type: tar.TypeDir, Mode: 0o755, Modified: modified, PAX: map[string]string{"SCHILY.xattr.security.selinux": "l:opt"}},
		{Name: "opt/bridge", Content: "plugin", Type: tar.TypeReg, Mode: 0o755, Modified: modified, PAX: map[string]string{"SCHILY.xattr.security.selinux": "l:b=x"}},
	}

	var got []entry

	err := rootfs.ReadTar(t.Context(), bytes.NewReader(tarOf(t, tree, modified)), rootfs.DefaultReadLimits, func(h *tar.Header, r io.Reader) error {
		data, err := io.ReadAll(r)
		got = append(got, entry{h.Name, string(data), h.Typeflag, h.Mode, h.ModTime.UTC(), h.PAXRecords})

		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Linkname != "" || !h.AccessTime.IsZero() || !h.ChangeTime.IsZero() {
			t.Errorf("the header of %s has more than it may: %+v", h.Name, h)
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestDeterminism: neither the order of additions, nor where and with which mode the contents lie, nor
// the zone of the time reaches the bytes.
func TestDeterminism(t *testing.T) {
	t.Parallel()

	names := []string{"a", "a.b/c", "opt/cni/bin/bridge", "opt/cni/bin/host-local", "usr/x", strings.Repeat("long/", 60) + "name"}

	build := func() *rootfs.Tree {
		tree := &rootfs.Tree{}

		for _, i := range rand.Perm(len(names)) {
			if names[i] == "a" {
				continue // a file "a" is one path, "a.b/c" another
			}

			content, name := fileContent(t, "content of "+names[i])

			mode := []fs.FileMode{0o600, 0o777}[rand.IntN(2)]
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}

			if err := tree.Add(names[i], 0o755, content); err != nil {
				t.Fatal(err)
			}
		}

		if err := tree.AddParents(); err != nil {
			t.Fatal(err)
		}

		tree.Label("security.selinux", func(name string) string { return "x:" + name })
		tree.Label("user.a", func(string) string { return "a" })

		return tree
	}

	when := time.Unix(1_700_000_000, 0)
	first, want := build(), tarOf(t, build(), when.UTC())

	for i := range 10 {
		tree, zoned := build(), when.In(time.FixedZone("elsewhere", i*3600))

		if !bytes.Equal(want, tarOf(t, tree, zoned)) {
			t.Fatal("the same tree gives other bytes")
		}

		if first.Fingerprint(when) != tree.Fingerprint(zoned) {
			t.Fatal("the same tree has another fingerprint")
		}
	}
}

func TestFingerprintTellsApart(t *testing.T) {
	t.Parallel()

	build := func(name string, mode fs.FileMode, content, label string) *rootfs.Tree {
		tree := &rootfs.Tree{}
		add(t, tree, name, mode, content)
		tree.Label("security.selinux", func(string) string { return label })

		return tree
	}

	directory := &rootfs.Tree{}
	if err := directory.AddDir("a"); err != nil {
		t.Fatal(err)
	}

	seen := make(map[string]string)

	for name, fingerprint := range map[string]string{
		"empty":     (&rootfs.Tree{}).Fingerprint(epoch),
		"original":  build("a", 0o644, "x", "").Fingerprint(epoch),
		"path":      build("b", 0o644, "x", "").Fingerprint(epoch),
		"mode":      build("a", 0o755, "x", "").Fingerprint(epoch),
		"content":   build("a", 0o644, "y", "").Fingerprint(epoch),
		"label":     build("a", 0o644, "x", "l").Fingerprint(epoch),
		"time":      build("a", 0o644, "x", "").Fingerprint(epoch.Add(time.Second)),
		"directory": directory.Fingerprint(epoch),
	} {
		if other, ok := seen[fingerprint]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}

		seen[fingerprint] = name
	}
}

// TestChangedFile: the tree knows size and digest of a file; what is written must still have both.
func TestChangedFile(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ now, want string }{
		"grown":   {"123456", "writing opt/bridge: the file no longer has 5 bytes: it changed during the build"},
		"shrunk":  {"1234", "writing opt/bridge: the file no longer has 5 bytes: it changed during the build"},
		"altered": {"54321", "writing opt/bridge: the file has another content than before: it changed during the build"},
		"same":    {"12345", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			content, file := fileContent(t, "12345")
			tree := &rootfs.Tree{}

			if err := tree.Add("opt/bridge", 0o755, content); err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(file, []byte(test.now), 0o644); err != nil {
				t.Fatal(err)
			}

			got := ""
			if err := tree.WriteTar(t.Context(), io.Discard, epoch); err != nil {
				got = err.Error()
			}

			if got != test.want {
				t.Errorf("error is %q, want %q", got, test.want)
			}
		})
	}
}

type fullDisk struct{ room int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		return 0, errFull
	}

	d.room -= len(p)

	return len(p), nil
}

func TestWriteTarFails(t *testing.T) {
	t.Parallel()

	tree := &rootfs.Tree{}
	add(t, tree, "a", 0o644, strings.Repeat("x", 2000))

	whole := len(tarOf(t, tree, epoch))

	for room := 0; room < whole; room += 500 {
		if err := tree.WriteTar(t.Context(), &fullDisk{room}, epoch); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: error is %v", room, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := tree.WriteTar(ctx, io.Discard, epoch); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error is %v", err)
	}
}
