package gotool_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/gotool"
	"github.com/cnibake/cnibake/builder/payload"
)

func writeFile(t *testing.T, name, content string, mode fs.FileMode) {
	t.Helper()

	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), mode)); err != nil {
		t.Fatal(err)
	}
}

func TestNoToolchain(t *testing.T) {
	// Scripts are written before other tests start processes, which would have them open for writing.
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "plain/go"), "#!/bin/sh\n", 0o644)
	writeFile(t, filepath.Join(dir, "directory/go/file"), "", 0o644)
	writeFile(t, filepath.Join(dir, "broken/go"), "#!/bin/sh\necho >&2 'no GOROOT'\nexit 2\n", 0o755)
	writeFile(t, filepath.Join(dir, "junk/go"), "#!/bin/sh\necho go version 1\n", 0o755)
	writeFile(t, filepath.Join(dir, "foreign/go"), "\x7fELF of another machine", 0o755)

	t.Parallel()

	for name, test := range map[string]struct {
		environ []string
		want    string
	}{
		"no environment":  {nil, "no Go toolchain found in PATH"},
		"empty PATH":      {[]string{"PATH="}, "no Go toolchain found in PATH"},
		"not installed":   {[]string{"PATH=" + dir}, "no Go toolchain found in PATH"},
		"relative PATH":   {[]string{"PATH=.:broken"}, "no Go toolchain found in PATH"},
		"not executable":  {[]string{"PATH=" + dir + "/plain:" + dir + "/directory"}, "no Go toolchain found in PATH"},
		"fails":           {[]string{"PATH=" + dir + "/broken"}, "no Go toolchain found: go env: exit status 2: no GOROOT"},
		"answers in junk": {[]string{"PATH=" + dir + "/junk"}, "no Go toolchain found: reading the answer of go env: invalid character 'g' looking for beginning of value"},
		"cannot run":      {[]string{"PATH=" + dir + "/foreign"}, "no Go toolchain found: go env: fork/exec " + dir + "/foreign/go: exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := gotool.Find(t.Context(), test.environ)
			if !errors.Is(err, gotool.ErrNoToolchain) || strings.TrimSuffix(err.Error(), ": ") != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}

	if !strings.HasPrefix(tool.Version(), "go1.") {
		t.Errorf("version is %q", tool.Version())
	}
}

// module writes a module whose only program is called tool.
func module(t *testing.T, main string) string {
	t.Helper()

	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "go.mod"), "module example.org/m\n\ngo 1.24\n", 0o644)
	writeFile(t, filepath.Join(dir, "cmd/tool/main.go"), main, 0o644)

	return dir
}

// TestBuildDirAnywhere: the bytes do not tell where the sources lay.
func TestBuildDirAnywhere(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}

	digests := make(map[string]bool)

	for range 2 {
		dir, out := module(t, "package main\n\nfunc main() { panic(1) }\n"), t.TempDir()

		if err := tool.BuildDir(t.Context(), dir, "arm64", "", out, []string{"./cmd/tool"}); err != nil {
			t.Fatal(err)
		}

		binary, err := payload.InspectFile(filepath.Join(out, "tool"))
		if err != nil {
			t.Fatal(err)
		}

		if err := binary.Check("arm64"); err != nil {
			t.Error(err)
		}

		digest, _, err := payload.DigestFile(filepath.Join(out, "tool"))
		if err != nil {
			t.Fatal(err)
		}

		digests[digest] = true
	}

	if len(digests) != 1 {
		t.Errorf("two directories give %d programs", len(digests))
	}
}

func TestCompilerMessage(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}

	err = tool.BuildDir(t.Context(), module(t, "package main\n\nfunc main() { nosuch() }\n"), "amd64", "", t.TempDir(), []string{"./cmd/tool"})

	const want = "compiling for amd64: go build: exit status 1: # example.org/m/cmd/tool; cmd/tool/main.go:3:15: undefined: nosuch"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestCancel: when the context ends, the go command ends together with what it started, and the error
// says that nothing is wrong with the toolchain.
func TestCancel(t *testing.T) {
	// Written before other tests start processes, as above.
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")

	writeFile(t, filepath.Join(dir, "go"), `#!/bin/sh
[ "$1" = env ] && exec echo '{"GOVERSION": "go1.26.0"}'
sleep 1000 &
echo $! > `+pidFile+`.new
mv `+pidFile+`.new `+pidFile+`
wait
`, 0o755)

	t.Parallel()

	tool, err := gotool.Find(t.Context(), []string{"PATH=" + dir + ":/usr/bin:/bin"})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	result := make(chan error, 1)

	go func() { result <- tool.BuildDir(ctx, dir, "amd64", "", dir, nil) }()

	var pid string

	for pid == "" {
		data, err := os.ReadFile(pidFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}

		pid = strings.TrimSpace(string(data))

		select {
		case err := <-result:
			t.Fatalf("the command ended by itself: %v", err)
		case <-time.After(time.Millisecond):
		}
	}

	cancel()

	if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, gotool.ErrNoToolchain) {
		t.Errorf("error is %v", err)
	}

	// A killed process may stay as a zombie for a moment. If it lives on, the test never ends.
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}

		time.Sleep(time.Millisecond)
	}
}

func TestCanceledBefore(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := gotool.Find(ctx, os.Environ()); !errors.Is(err, context.Canceled) || errors.Is(err, gotool.ErrNoToolchain) {
		t.Errorf("error is %v", err)
	}
}
