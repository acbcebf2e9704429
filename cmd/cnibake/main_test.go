package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cnibake/cnibake/builder/buildertest"
)

func TestMain(m *testing.M) {
	// The program is in PATH of the tests as cnibake.
	testscript.Main(m, map[string]func(){"cnibake": main})
}

// TestScripts runs the command-line stories in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()

	testscript.Run(t, scripts(t, "testdata/script", nil))
}

// scripts are the stories of a directory; they find the variables in their environment.
func scripts(t *testing.T, dir string, variables map[string]string) testscript.Params {
	t.Helper()

	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			repository, err := filepath.Abs("../..")
			if err != nil {
				return err
			}

			env.Setenv("REPOSITORY", repository)
			env.Setenv("XDG_CACHE_HOME", filepath.Dir(buildertest.Cache(t).Dir()))

			for key, value := range goSettings(t) {
				env.Setenv(key, value)
			}

			for key, value := range variables {
				env.Setenv(key, value)
			}

			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"oneline": oneLine,
		},
	}
}

// oneLine checks that the command before printed exactly one line to stderr, and that it has all the texts.
func oneLine(ts *testscript.TestScript, neg bool, texts []string) {
	if neg {
		ts.Fatalf("oneline cannot be negated")
	}

	stderr := ts.ReadFile("stderr")
	if strings.Count(stderr, "\n") != 1 {
		ts.Fatalf("stderr is not one line:\n%s", stderr)
	}

	for _, text := range texts {
		if !strings.Contains(stderr, text) {
			ts.Fatalf("stderr lacks %q:\n%s", text, stderr)
		}
	}
}

// goSettings are the user's Go caches, for programs that run with another HOME.
func goSettings(t *testing.T) map[string]string {
	t.Helper()

	settings := make(map[string]string)

	for _, key := range []string{"GOMODCACHE", "GOCACHE", "GOPROXY"} {
		out, err := exec.Command("go", "env", key).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", key, err)
		}

		settings[key] = strings.TrimSpace(string(out))
	}

	return settings
}

// testEnviron is this process's environment with the cache that tests share.
func testEnviron(t *testing.T, extra ...string) []string {
	t.Helper()

	return append(append(os.Environ(), "XDG_CACHE_HOME="+filepath.Dir(buildertest.Cache(t).Dir())), extra...)
}

var dist struct {
	once sync.Once
	dir  string
	err  error
}

// distDir returns the artifacts of an ordinary "cnibake build", made once for all tests. It is for
// reading only.
func distDir(t *testing.T) string {
	t.Helper()

	dist.once.Do(func() {
		// Not t.TempDir: the directory outlives the first test that asks. It is inside the
		// testscript directory that TestMain removes.
		cnibake, err := exec.LookPath("cnibake")
		if err != nil {
			dist.err = err

			return
		}

		dist.dir = filepath.Join(filepath.Dir(filepath.Dir(cnibake)), "dist")

		var stderr bytes.Buffer

		if code := run(t.Context(), []string{"build", "--out", dist.dir}, testEnviron(t), io.Discard, &stderr); code != exitGood {
			t.Fatalf("building: exit %d: %s", code, stderr.String())
		}
	})

	if dist.err != nil || dist.dir == "" {
		t.Fatalf("no artifacts: %v", dist.err)
	}

	return dist.dir
}

// output runs a program and returns its stdout.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()

	var stderr bytes.Buffer

	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}

	return string(out)
}
