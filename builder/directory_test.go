package builder_test

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
)

func mustBuild(t *testing.T, out string, format fakeFormat, names ...string) {
	t.Helper()

	if err := build(t, out, format, names...); err != nil {
		t.Fatal(err)
	}

	checkSums(t, out)
}

// checkSums does what `sha256sum -c` does, and looks for files that are not listed.
func checkSums(t *testing.T, out string) {
	t.Helper()

	file, err := os.Open(filepath.Join(out, builder.SumsName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	var last string

	for lines := bufio.NewScanner(file); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name <= last {
			t.Errorf("line %q is malformed or out of order", lines.Text())
		}

		last = name

		if digest, _, err := payload.DigestFile(filepath.Join(out, name)); err != nil || digest != "sha256:"+sum {
			t.Errorf("%s has %s: %v", name, digest, err)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()

	return slices.DeleteFunc(slices.Sorted(maps.Keys(snapshot(t, dir))), func(name string) bool { return name == "." })
}

func checkNames(t *testing.T, dir string, want ...string) {
	t.Helper()

	want = append([]string{}, want...)
	slices.Sort(want)

	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()

	out := filepath.Join(t.TempDir(), "not", "there", "yet")
	mustBuild(t, out, content("1"), "one", "two")
	checkNames(t, out, "SHA256SUMS", "build.json", "one.tar", "one-amd64.spdx.json", "one.provenance.jsonl", "two.tar", "two-amd64.spdx.json", "two.provenance.jsonl")

	first := snapshot(t, out)

	mustBuild(t, out, content("1"), "one", "two")

	if diff := cmp.Diff(first, snapshot(t, out)); diff != "" {
		t.Errorf("building again changes the output (-first +second):\n%s", diff)
	}
}

// TestOtherFilesStay: what a build did not write is not its business, what an earlier one wrote is.
func TestOtherFilesStay(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	mustBuild(t, out, content("1"), "one", "two")

	writeFile(t, filepath.Join(out, "notes.txt"), "mine")
	writeFile(t, filepath.Join(out, "deep/er/notes.txt"), "mine")
	writeFile(t, filepath.Join(out, "three.tar"), "mine until there is a profile three")

	mustBuild(t, out, content("2"), "one")
	checkNames(t, out, "SHA256SUMS", "build.json", "one.tar", "one-amd64.spdx.json", "one.provenance.jsonl", "notes.txt", "deep", "deep/er", "deep/er/notes.txt", "three.tar")

	mustBuild(t, out, content("3"), "three")
	checkNames(t, out, "SHA256SUMS", "build.json", "three.tar", "three-amd64.spdx.json", "three.provenance.jsonl", "notes.txt", "deep", "deep/er", "deep/er/notes.txt")

	if data, err := os.ReadFile(filepath.Join(out, "three.tar")); string(data) != "3" {
		t.Errorf("three.tar holds %q: %v", data, err)
	}
}

// failing writes an artifact and then fails.
func failing(err error) fakeFormat {
	return func(ctx context.Context, target *builder.Target, out *builder.Output) error {
		return errors.Join(content("half")(ctx, target, out), err)
	}
}

var errBroken = errors.New("broken")

func TestFailedBuildChangesNothing(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	mustBuild(t, out, content("1"), "one")

	before := snapshot(t, out)

	if err := build(t, out, failing(errBroken), "one", "two"); !errors.Is(err, errBroken) {
		t.Errorf("error is %v", err)
	}

	if diff := cmp.Diff(before, snapshot(t, out)); diff != "" {
		t.Errorf("the output changed (-before +after):\n%s", diff)
	}
}

func TestCanceledBuildChangesNothing(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	mustBuild(t, out, content("1"), "one")

	before := snapshot(t, out)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	options := fakeOptions(t, out, func(ctx context.Context, target *builder.Target, out *builder.Output) error {
		cancel()

		return content("2")(ctx, target, out)
	}, "one")

	if _, err := builder.Build(ctx, options); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}

	if diff := cmp.Diff(before, snapshot(t, out)); diff != "" {
		t.Errorf("the output changed (-before +after):\n%s", diff)
	}
}

// TestFailedBuildLeavesNoDirectories: only those that it made itself go.
func TestFailedBuildLeavesNoDirectories(t *testing.T) {
	t.Parallel()

	top := t.TempDir()

	if err := os.Mkdir(filepath.Join(top, "there"), 0o755); err != nil {
		t.Fatal(err)
	}

	for _, out := range []string{"a/b/c", "there/d", "there"} {
		if err := build(t, filepath.Join(top, out), failing(errBroken), "one"); !errors.Is(err, errBroken) {
			t.Errorf("%s: error is %v", out, err)
		}
	}

	checkNames(t, top, "there")
}

func TestTwoBuildsAtOnce(t *testing.T) {
	t.Parallel()

	out := t.TempDir()

	var second error

	err := build(t, out, func(ctx context.Context, target *builder.Target, o *builder.Output) error {
		second = build(t, out, content("2"), "one")

		return content("1")(ctx, target, o)
	}, "one")
	if err != nil {
		t.Fatal(err)
	}

	if want := "output directory " + out + " is in use by another build: wait for it or choose another --out"; second == nil || second.Error() != want {
		t.Errorf("the second build's error is %v, want %s", second, want)
	}

	if data, err := os.ReadFile(filepath.Join(out, "one.tar")); string(data) != "1" {
		t.Errorf("one.tar holds %q: %v", data, err)
	}

	// The lock went with the first build.
	mustBuild(t, out, content("3"), "one")
}

// TestKilledBuildIsSwept, and nothing beside it: the names here are also patterns that match each other.
func TestKilledBuildIsSwept(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"dist", "dist[12]", "dist[", "dist*", `dist\`} {
		top := t.TempDir()
		out := filepath.Join(top, name)

		writeFile(t, filepath.Join(out, ".cnibake-123", "work", "bridge"), "x")
		writeFile(t, filepath.Join(out, ".cnibake-123", "retired-1", "one.tar"), "x")
		writeFile(t, filepath.Join(top, "dist1", ".cnibake-456", "running"), "x")

		mustBuild(t, out, content("1"), "one")
		checkNames(t, out, "SHA256SUMS", "build.json", "one.tar", "one-amd64.spdx.json", "one.provenance.jsonl")
		checkNames(t, filepath.Join(top, "dist1"), ".cnibake-456", ".cnibake-456/running")
	}
}

func TestOutputCannotBeMade(t *testing.T) {
	t.Parallel()

	top := t.TempDir()
	writeFile(t, filepath.Join(top, "file"), "mine")

	for out, want := range map[string]error{"file": syscall.ENOTDIR, "file/dist": syscall.ENOTDIR} {
		if err := build(t, filepath.Join(top, out), content("1"), "one"); !errors.Is(err, want) || !strings.Contains(err.Error(), "output directory") {
			t.Errorf("%s: error is %v", out, err)
		}
	}

	checkNames(t, top, "file")
}

func TestReadOnlyOutput(t *testing.T) {
	t.Parallel()

	top := t.TempDir()
	buildertest.Mount(t, "tmpfs", top, "tmpfs", syscall.MS_RDONLY, "")

	for _, out := range []string{top, filepath.Join(top, "dist")} {
		if err := build(t, out, content("1"), "one"); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "output directory") {
			t.Errorf("error is %v", err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	buildertest.Mount(t, "tmpfs", out, "tmpfs", 0, "size=1m")
	mustBuild(t, out, content("1"), "one")

	before := snapshot(t, out)

	err := build(t, out, content(strings.Repeat("2", 2<<20)), "one")
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "writing one.tar: ") || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("error is %v", err)
	}

	if diff := cmp.Diff(before, snapshot(t, out)); diff != "" {
		t.Errorf("the output changed (-before +after):\n%s", diff)
	}
}

// TestPublishIsUndone: when one of the new files cannot be moved into place, all earlier ones come back.
func TestPublishIsUndone(t *testing.T) {
	t.Parallel()

	for _, blocked := range []string{"one.tar", "one-amd64.spdx.json", "one.provenance.jsonl", "two.tar", "build.json", "SHA256SUMS"} {
		t.Run(blocked, func(t *testing.T) {
			t.Parallel()

			out := t.TempDir()
			mustBuild(t, out, content("1"), "one")

			// A mount point can be neither renamed nor replaced.
			place := filepath.Join(out, blocked)
			if _, err := os.Lstat(place); err != nil {
				writeFile(t, place, "mine")
			}

			buildertest.Mount(t, place, place, "", syscall.MS_BIND, "")

			before := snapshot(t, out)

			if err := build(t, out, content("2"), "one", "two"); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), blocked) {
				t.Errorf("error is %v", err)
			}

			if diff := cmp.Diff(before, snapshot(t, out)); diff != "" {
				t.Errorf("the output changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestForeignReport: a build.json that somebody else wrote must not reach beyond the directory, nor
// stop the build.
func TestForeignReport(t *testing.T) {
	t.Parallel()

	artifacts := func(name string) string {
		return `{"profiles": [{"artifacts": [{"name": "` + name + `"}]}]}`
	}

	for what, report := range map[string]string{
		"not JSON":    "<html>",
		"other shape": `{"profiles": "x"}`,
		"parent":      artifacts("../victim"),
		"itself":      artifacts("."),
		"parent dir":  artifacts(".."),
		"root":        artifacts("/"),
		"empty":       artifacts(""),
		"below":       artifacts("keep/victim"),
		"absolute":    artifacts("/etc/hostname"),
		"report":      artifacts("build.json"),
		"sums":        artifacts("SHA256SUMS"),
		"hidden":      artifacts(".git"),
		"NUL":         artifacts(`a\u0000b`),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()

			top := t.TempDir()
			out := filepath.Join(top, "dist")

			for _, name := range []string{"victim", "dist/keep/victim", "dist/.git/victim"} {
				writeFile(t, filepath.Join(top, name), "mine")
			}

			writeFile(t, filepath.Join(out, "build.json"), report)
			mustBuild(t, out, content("1"), "one")
			checkNames(t, top, "victim", "dist", "dist/keep", "dist/keep/victim", "dist/.git", "dist/.git/victim",
				"dist/SHA256SUMS", "dist/build.json", "dist/one.tar", "dist/one-amd64.spdx.json", "dist/one.provenance.jsonl")
		})
	}
}

// TestReportThatIsNoFile also shows that a FIFO without a writer does not block.
func TestReportThatIsNoFile(t *testing.T) {
	t.Parallel()

	out := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(out, "build.json"), 0o644); err != nil {
		t.Fatal(err)
	}

	mustBuild(t, out, content("1"), "one")
	checkNames(t, out, "SHA256SUMS", "build.json", "one.tar", "one-amd64.spdx.json", "one.provenance.jsonl")
}
