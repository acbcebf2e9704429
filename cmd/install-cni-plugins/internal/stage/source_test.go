package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

func TestInstallDoesNotTrustItsSource(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		spoil func(n *node, path string)
		want  string
	}{
		"other bytes": {func(n *node, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(n, err)
			_, err = f.WriteAt([]byte("spoilt"), 1<<20)
			must(n, err)
			f.Close()
		}, "damaged"},
		"truncated": {func(n *node, path string) { must(n, os.Truncate(path, 1000)) }, "its manifest says"},
		"missing":   {func(n *node, path string) { must(n, os.Remove(path)) }, "ENOENT"},
		"symlink": {func(n *node, path string) {
			must(n, os.Rename(path, path+"2"))
			must(n, os.Symlink(path+"2", path))
		}, "is a symlink, not a regular file"},
		"FIFO": {func(n *node, path string) {
			must(n, os.Remove(path))
			must(n, unix.Mkfifo(path, 0o644))
		}, "is a FIFO, not a regular file"},
		"directory": {func(n *node, path string) {
			must(n, os.Remove(path))
			must(n, os.Mkdir(path, 0o755))
		}, "is a directory, not a regular file"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			n.put("static", "old", 0o755)
			old := snapshot(t, n.dest)["static"]
			c.spoil(n, filepath.Join(n.source, "static"))

			report := n.install()
			equal(t, "failed", report.Failed, []string{"static"})

			if text := reason(report, "static"); !strings.Contains(text, c.want) {
				t.Errorf("the reason is no help: %s", text)
			}

			got := snapshot(t, n.dest)
			equal(t, "old plugin", got["static"], old)
			equal(t, "entries", len(got), 2)
			n.consistent()
		})
	}
}

func TestInstallWantsProgramsForThisMachine(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	write(t, filepath.Join(n.source, "static"), "#!/bin/sh\n", 0o755)
	testplugins.WriteManifest(t, n.source, testplugins.ManifestOf(t, n.source))

	if text := reason(n.install(), "static"); !strings.Contains(text, "not an ELF program") {
		t.Errorf("the reason is no help: %s", text)
	}

	other := newNode(t)
	report := other.install(func(o *InstallOptions) { o.arch = "arm" })
	equal(t, "failed", report.Failed, []string{"static", "tuning"})

	if text := reason(report, "static"); !strings.Contains(text, "not for arm") {
		t.Errorf("the reason is no help: %s", text)
	}

	equal(t, "directory", snapshot(t, other.dest), map[string]string{})
}

func TestInstallWithoutAManifest(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	must(t, os.Remove(filepath.Join(n.source, payload.ManifestName)))
	must(t, os.Mkdir(filepath.Join(n.source, "docs"), 0o755))
	must(t, os.Symlink("static", filepath.Join(n.source, "linked")))
	must(t, unix.Mkfifo(filepath.Join(n.source, "pipe"), 0o644))
	write(t, filepath.Join(n.source, "README.md"), "text", 0o644)
	write(t, filepath.Join(n.source, "odd\nname"), "text", 0o644)

	report := n.install()
	equal(t, "actions", actions(report), map[string]string{"static": "installed (unverified)", "tuning": "installed (unverified)"})
	equal(t, "verified", report.Verified, false)
	equal(t, "directory", snapshot(t, n.dest), n.staged("static", "tuning"))

	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{
		"docs is a directory, not a plugin binary", "linked is a symlink", "pipe is a FIFO",
		`"README.md" is not a plugin name`, `"odd\nname" is not a plugin name`,
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not among the notes:\n%s", want, notes)
		}
	}
}

func TestInstallFindsTheManifestOfTheImage(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	root := t.TempDir()
	source := filepath.Join(root, "cni-plugins")
	must(t, os.CopyFS(source, os.DirFS(n.source)))
	must(t, os.Rename(filepath.Join(source, payload.ManifestName), filepath.Join(root, "manifest.json")))
	n.source = source

	report := n.install()
	equal(t, "verified", report.Verified, true)
	equal(t, "failed", report.Failed, []string{})
}

func TestInstallStagesNothingWithABadManifest(t *testing.T) {
	t.Parallel()

	for name, spoil := range map[string]func(t *testing.T, path string){
		"not JSON": func(t *testing.T, path string) { write(t, path, "<html>", 0o644) },
		"FIFO": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, unix.Mkfifo(path, 0o644))
		},
		"other schema": func(t *testing.T, path string) { write(t, path, `{"schemaVersion": 2}`, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			spoil(t, filepath.Join(n.source, payload.ManifestName))

			report := n.install()
			equal(t, "good", report.Good(), false)
			equal(t, "failed", report.Failed, []string{"static", "tuning"})
			equal(t, "directory", snapshot(t, n.dest), map[string]string{})
		})
	}
}

func TestInstallWithoutASource(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.source = filepath.Join(n.source, "none")

	report := n.install()
	equal(t, "text", report.SkippedStaging, fmt.Sprintf("no %s in this image; skipping staging", n.source))
	equal(t, "good", report.Good(), true)

	empty := newNode(t)
	empty.source = t.TempDir()
	equal(t, "empty source", empty.install().Good(), false)
}
