package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// Results that nobody can read keep no pod from its network, and what failed is told all the same.
func TestInstallWithoutAReader(t *testing.T) {
	t.Parallel()

	for name, open := range map[string]func(t *testing.T) *os.File{
		"closed pipe": func(t *testing.T) *os.File {
			r, w, err := os.Pipe()
			must(t, err)
			r.Close()

			return w
		},
		"full disk": func(t *testing.T) *os.File {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			testplugins.Need(t, err, "/dev/full")

			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p := newPlace(t, "static", "tuning")
			must(t, os.Mkdir(filepath.Join(p.dest, "tuning"), 0o755))

			out := open(t)
			defer out.Close()

			run := func(args ...string) (int, string) {
				var stderr bytes.Buffer

				cmd := exec.Command(binary(t), args...)
				cmd.Stdout, cmd.Stderr = out, &stderr
				_ = cmd.Run()

				return cmd.ProcessState.ExitCode(), stderr.String()
			}

			for _, extra := range [][]string{nil, {"-o", "json"}} {
				code, stderr := run(p.args(extra...)...)
				wantEqual(t, "exit code", code, 0)
				wantText(t, "stderr", stderr, "failed to install: tuning\n", "tuning is a directory", "writing the results: ")
			}

			code, _ := run(p.args("--strict")...)
			wantEqual(t, "strict exit code", code, 2)

			// Silence must not pass for success.
			code, stderr := run("uninstall", "--dest", p.dest, "--state-dir", p.state)
			wantEqual(t, "uninstall's exit code", code, 2)
			wantText(t, "stderr", stderr, "writing the results: ")
		})
	}
}

// Too few descriptors are a failure like any other. Below 8 Go's runtime does not even start.
func TestInstallWithFewDescriptors(t *testing.T) {
	t.Parallel()

	for limit := 8; limit < 14; limit++ {
		p := newPlace(t, "static")

		out, err := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, limit), "sh", binary(t)}, p.args()...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "EMFILE") && !strings.Contains(string(out), "static: installed") {
			t.Errorf("with %d descriptors: %v: %s", limit, err, out)
		}
	}
}

func TestInstallWithAUmaskThatTakesAll(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "setpriv", "util-linux")

	p := newPlace(t, "static", "tuning")
	write(t, filepath.Join(p.dest, "tuning"), "foreign")

	script := `umask 0777; exec setpriv --bounding-set=-all --inh-caps=-all "$@"`
	out, err := exec.Command("sh", append([]string{"-c", script, "sh", binary(t)}, p.args("--strict")...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}

	info, err := os.Stat(filepath.Join(p.state, "record.json"))
	must(t, err)
	wantEqual(t, "mode of the record", info.Mode().Perm(), os.FileMode(0o600))
}

// The node's directory may be full of other things, and what lies there may be made to cost memory.
func TestInstallNeedsLittleMemoryWhateverLiesThere(t *testing.T) {
	const limit = 16 << 20

	p := newPlace(t, "static")

	entries := 60000
	if testing.Short() {
		entries = 10000
	}

	for i := range entries {
		must(t, syscall.Mknod(filepath.Join(p.dest, fmt.Sprintf("foreign-%06d-%s", i, strings.Repeat("x", 180))), syscall.S_IFREG|0o644, 0))
	}

	write(t, filepath.Join(p.dest, ".cni-plugins.json"), `{"schemaVersion":1,"plugins":[`+strings.Repeat("1,", 1<<19-30)+"1]}")

	var record strings.Builder
	for i := 0; record.Len() < 4<<20; i++ {
		fmt.Fprintf(&record, `,"%x":{}`, i)
	}

	write(t, filepath.Join(p.state, "record.json"), `{"schemaVersion":1,"directories":{"/":{`+record.String()[1:]+"}}}")

	peak := newGroup(t, fmt.Sprintf("install-cni-plugins-%d-full", os.Getpid())).run(t, limit, binary(t), p.args("--strict")...)
	t.Logf("%.1f MiB", float64(peak)/(1<<20))
}
