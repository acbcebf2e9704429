package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// outcome is what a run of the program shows.
type outcome struct {
	code                        int
	stdout, stderr, termination string
}

func invoke(t testing.TB, environ []string, args ...string) outcome {
	t.Helper()

	var stdout, stderr bytes.Buffer

	log := filepath.Join(t.TempDir(), "termination-log")
	write(t, log, "")

	p := program{env: newEnvironment(environ), stdout: &stdout, stderr: &stderr, terminationLog: log}
	code := p.run(t.Context(), args)

	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}

	return outcome{code, stdout.String(), stderr.String(), string(data)}
}

func write(t testing.TB, path, content string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func wantText(t testing.TB, what, text string, parts ...string) {
	t.Helper()

	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

func wantEqual(t testing.TB, what string, got, want any) {
	t.Helper()

	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// place is a payload with a bin and a state directory.
type place struct{ source, dest, state string }

func newPlace(t testing.TB, names ...string) place {
	t.Helper()

	return place{testplugins.Payload(t, testplugins.Stripped, names...), t.TempDir(), t.TempDir()}
}

func (p place) args(args ...string) []string {
	return append([]string{"install", "--source", p.source, "--dest", p.dest, "--state-dir", p.state}, args...)
}

func TestInstallReports(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "bridge", "static", "tuning")
	write(t, filepath.Join(p.dest, "bridge"), "foreign")

	o := invoke(t, nil, p.args("--skip", "tuning")...)
	wantEqual(t, "exit code", o.code, 0)
	wantText(t, "stdout", o.stdout, "bridge: replaced ", "->", " (foreign)\n", "static: installed\n", "tuning: skipped\n")
	wantEqual(t, "stderr", o.stderr, "")
	wantEqual(t, "termination log", o.termination, "")

	o = invoke(t, nil, p.args()...)
	wantEqual(t, "stdout", o.stdout, "bridge: unchanged\nstatic: unchanged\ntuning: installed\n")
}

func TestInstallFailsSoftlyUnlessStrict(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "bridge", "static")
	for _, name := range []string{"bridge", "static"} {
		if err := os.Mkdir(filepath.Join(p.dest, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	for code, args := range [][]string{p.args(), p.args("--strict")} {
		o := invoke(t, nil, args...)
		wantEqual(t, "exit code", o.code, code)

		lines := strings.Split(o.stderr, "\n")
		wantEqual(t, "first line", lines[len(lines)-4], "bridge is a directory, not a plugin binary; left as is")
		wantEqual(t, "summary", lines[len(lines)-2], "failed to install: bridge static")
		wantText(t, "stdout", o.stdout, "failed to install: bridge static\n")
		wantEqual(t, "termination log", o.termination, o.stderr)
	}
}

func TestInstallWithoutPlugins(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "static")
	p.source = filepath.Join(p.source, "none")
	want := "no " + p.source + " in this image; skipping staging\n"

	o := invoke(t, nil, p.args()...)
	wantEqual(t, "exit code", o.code, 0)
	wantEqual(t, "stdout", o.stdout, want)
	wantEqual(t, "termination log", o.termination, "")

	wantEqual(t, "strict exit code", invoke(t, nil, p.args("--strict")...).code, 1)
}

func TestInstallWithoutADirectory(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "static")
	p.dest = filepath.Join(p.dest, "none")

	o := invoke(t, nil, p.args()...)
	wantEqual(t, "exit code", o.code, 0)
	wantText(t, "termination log", o.termination, "failed to install: static\n", "ENOENT", p.dest, "--create")
}

func TestInstallInJSON(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "bridge", "static")
	write(t, filepath.Join(p.dest, "bridge"), "foreign")

	for _, changed := range []bool{true, false} {
		o := invoke(t, nil, p.args("-o", "json")...)

		var report struct {
			Operation string
			Changed   bool
			Verified  bool
			Failed    []string
			Plugins   []map[string]any
		}

		if err := json.Unmarshal([]byte(o.stdout), &report); err != nil {
			t.Fatalf("%v in %s", err, o.stdout)
		}

		wantEqual(t, "operation", report.Operation, "install")
		wantEqual(t, "changed", report.Changed, changed)
		wantEqual(t, "verified", report.Verified, true)
		wantEqual(t, "failed", report.Failed, []string{})
		wantEqual(t, "name", report.Plugins[0]["name"], "bridge")

		if changed {
			wantEqual(t, "action", report.Plugins[0]["action"], "replaced")
			wantEqual(t, "foreign", report.Plugins[0]["foreign"], true)
		}
	}
}

func TestDryRunSaysWhatItWouldDo(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "bridge", "static")
	write(t, filepath.Join(p.dest, "bridge"), "foreign")

	o := invoke(t, nil, p.args("--dry-run")...)
	wantText(t, "stdout", o.stdout, "bridge: would be replaced ", "static: would be installed\n")
}

func TestOtherVerbs(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "bridge", "static")
	write(t, filepath.Join(p.dest, "bridge"), "foreign")
	invoke(t, nil, p.args()...)

	verify := []string{"verify", "--source", p.source, "--dest", p.dest}
	o := invoke(t, nil, verify...)
	wantEqual(t, "exit code", o.code, 0)
	wantEqual(t, "stdout", o.stdout, "bridge: right\nstatic: right\n")

	write(t, filepath.Join(p.dest, "static"), "changed")
	o = invoke(t, nil, verify...)
	wantEqual(t, "exit code", o.code, 1)
	wantText(t, "stdout", o.stdout, "static: altered (")

	uninstall := []string{"uninstall", "--dest", p.dest, "--state-dir", p.state}
	o = invoke(t, nil, uninstall...)
	wantEqual(t, "exit code", o.code, 1)
	wantText(t, "stdout", o.stdout, "bridge: restored\n", "static: left (changed since we wrote it)\n")
	wantText(t, "stderr", o.stderr, "left in place: static")

	o = invoke(t, nil, "verify", "--source", p.source+"/none", "--dest", p.dest)
	wantEqual(t, "exit code", o.code, 2)
	wantText(t, "stderr", o.stderr, "nothing to verify against")

	o = invoke(t, nil, "unshadow", "--dest", p.dest)
	wantEqual(t, "exit code", o.code, 2)
	wantText(t, "stderr", o.stderr, "--upper")

	wantText(t, "version", invoke(t, nil, "version").stdout, "install-cni-plugins ")

	for _, args := range [][]string{{"help"}, {"--help"}, {"install", "-h"}, {"verify", "--help"}} {
		o = invoke(t, nil, args...)
		wantEqual(t, "exit code", o.code, 0)
		wantText(t, "help", o.stdout, "--state-dir DIR", "talos")
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "static")

	for name, c := range map[string]struct {
		environ, args []string
		want          string
	}{
		"unknown command":       {nil, []string{"instal"}, `unknown command "instal"`},
		"unknown flag":          {nil, p.args("--stict"), "-stict"},
		"argument":              {nil, p.args("bridge"), `unexpected argument "bridge"`},
		"flag, not a bool":      {nil, p.args("--strict=maybe"), `"maybe" is neither true`},
		"variable, not a bool":  {[]string{"CNI_INSTALL_STRICT=maybe"}, p.args(), `CNI_INSTALL_STRICT="maybe"`},
		"unknown policy":        {[]string{"CNI_INSTALL_UPDATE=sometimes"}, p.args(), "always, owned, missing"},
		"unknown distribution":  {nil, p.args("--distro", "plan9"), "talos"},
		"odd name":              {nil, p.args("--only", "../bridge"), `"../bridge" is not a plugin name`},
		"no name":               {nil, p.args("--only", ","), "names no plugin"},
		"odd name, known image": {[]string{"SKIP_CNI_BINARIES=Bridge"}, p.args(), "SKIP_CNI_BINARIES"},
		"unknown output":        {nil, p.args("-o", "yaml"), "text, json"},
		"empty directory":       {nil, p.args("--dest", ""), "--dest is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := invoke(t, c.environ, c.args...)
			wantEqual(t, "exit code", o.code, 2)
			wantText(t, "stderr", o.stderr, c.want)
			wantEqual(t, "lines", strings.Count(o.stderr, "\n"), 1)

			if c.args[0] == "install" {
				wantEqual(t, "termination log", o.termination, o.stderr)
			}

			entries, err := os.ReadDir(p.dest)
			if err != nil || len(entries) > 0 {
				t.Errorf("the bin directory has %v, %v", entries, err)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		environ, args []string
		want          func(o *installOptions)
	}{
		"defaults":         {nil, nil, func(*installOptions) {}},
		"empty is unset":   {[]string{"CNI_INSTALL_STRICT=", "CNI_INSTALL_DEST=", "SKIP_CNI_BINARIES="}, nil, func(*installOptions) {}},
		"service variable": {[]string{"CNI_INSTALL_SERVICE_HOST=10.0.0.1", "CNI_INSTALL_PORT=tcp://10.0.0.1:80"}, nil, func(*installOptions) {}},
		"variables": {
			[]string{
				"CNI_INSTALL_SOURCE=/s", "CNI_INSTALL_DEST=/d", "CNI_INSTALL_STATE_DIR=/v", "CNI_INSTALL_ONLY=bridge, vlan",
				"CNI_INSTALL_SKIP=vlan", "CNI_INSTALL_TAKE_OVER=YES", "CNI_INSTALL_EXACT=1", "CNI_INSTALL_CREATE=On",
				"CNI_INSTALL_STRICT=True", "CNI_INSTALL_DRY_RUN=no", "CNI_INSTALL_OUTPUT=json", "CNI_INSTALL_UPDATE=owned",
			}, nil, func(o *installOptions) {
				o.source, o.dest, o.state = "/s", "/d", "/v"
				o.selection = stage.Selection{Only: []string{"bridge", "vlan"}, Skip: []string{"vlan"}}
				o.takeOver, o.exact, o.create, o.strict, o.json = true, true, true, true, true
				o.update = stage.Owned
			},
		},
		"flag wins":                 {[]string{"CNI_INSTALL_DEST=/d", "CNI_INSTALL_STRICT=yes"}, []string{"--dest", "/e", "--strict=no"}, func(o *installOptions) { o.dest = "/e" }},
		"short flag wins":           {[]string{"CNI_INSTALL_OUTPUT=json"}, []string{"-o", "text"}, func(*installOptions) {}},
		"skip adds":                 {[]string{"SKIP_CNI_BINARIES=flannel,bridge"}, []string{"--skip", "vlan"}, func(o *installOptions) { o.selection.Skip = []string{"vlan", "flannel", "bridge"} }},
		"update true":               {[]string{"UPDATE_CNI_BINARIES=true"}, nil, func(*installOptions) {}},
		"update anything else":      {[]string{"UPDATE_CNI_BINARIES=TRUE"}, nil, func(o *installOptions) { o.update = stage.Missing }},
		"our update wins over it":   {[]string{"UPDATE_CNI_BINARIES=false", "CNI_INSTALL_UPDATE=always"}, nil, func(*installOptions) {}},
		"update flag wins over it":  {[]string{"UPDATE_CNI_BINARIES=false"}, []string{"--update", "owned"}, func(o *installOptions) { o.update = stage.Owned }},
		"a bad value that is moot":  {[]string{"CNI_INSTALL_STRICT=maybe"}, []string{"--strict"}, func(o *installOptions) { o.strict = true }},
		"no word of other programs": {[]string{"STRICT=maybe", "CNI_COMMAND=ADD"}, nil, func(*installOptions) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			want := installOptions{update: stage.Always}
			want.source, want.dest, want.state = "/cni-plugins", "/host/opt/cni/bin", "/var/lib/cni-plugins"
			c.want(&want)

			var got installOptions
			if err := got.parse(newEnvironment(c.environ), c.args); err != nil {
				t.Fatal(err)
			}

			wantEqual(t, "options", got, want)
		})
	}
}

func TestTerminationLogIsBoundedAndNeverCreated(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	log := filepath.Join(dir, "log")

	if err := writeTerminationLog(log, "text"); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Lstat(log); err == nil {
		t.Error("the log has been created")
	}

	write(t, log, "old")

	if err := writeTerminationLog(log, strings.Repeat("x", 10000)); err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}

	wantEqual(t, "length", len(data), terminationLimit)

	if err := os.Symlink(log, log+"2"); err != nil {
		t.Fatal(err)
	}

	if err := writeTerminationLog(log+"2", "through a link"); err != nil {
		t.Fatal(err)
	}

	data, _ = os.ReadFile(log)
	wantEqual(t, "length", len(data), terminationLimit)
}

func FuzzEnvironment(f *testing.F) {
	f.Add("CNI_INSTALL_STRICT", "yes")
	f.Add("CNI_INSTALL_ONLY", "bridge,,vlan")
	f.Add("SKIP_CNI_BINARIES", "a\x00b")
	f.Add("UPDATE_CNI_BINARIES", "false")
	f.Add("CNI_INSTALL_UPDATE", "always")
	f.Fuzz(func(t *testing.T, name, value string) {
		var o installOptions
		if o.parse(newEnvironment([]string{name + "=" + value}), nil) == nil {
			checkOptions(t, o)
		}
	})
}

func FuzzFlags(f *testing.F) {
	f.Add("--strict\n--only=a,b\n-o\njson")
	f.Add("-strict=no\n--\nx")
	f.Add("--update\nmissing\n--distro\nk3s")
	f.Fuzz(func(t *testing.T, text string) {
		var o installOptions
		if o.parse(nil, strings.Split(text, "\n")) == nil {
			checkOptions(t, o)
		}
	})
}

// checkOptions holds what the stage package relies on.
func checkOptions(t *testing.T, o installOptions) {
	t.Helper()

	if _, err := stage.ParseUpdate(string(o.update)); err != nil || o.source == "" || o.dest == "" {
		t.Errorf("options are %+v", o)
	}

	for _, name := range append(o.selection.Only, o.selection.Skip...) {
		if strings.ContainsAny(name, "/\x00 ,") || name == "" || name[0] == '.' {
			t.Errorf("a selected name is %q", name)
		}
	}
}

func TestTerminationLogKeepsTheSummary(t *testing.T) {
	t.Parallel()

	const summary = "failed to install: static\n"

	kept := ending(strings.Repeat("a sentence that is not short\n", 500) + summary)
	if len(kept) > terminationLimit || !strings.HasSuffix(kept, summary) || !strings.HasPrefix(kept, "a sentence") {
		t.Errorf("%d bytes are kept, from %q to %q", len(kept), kept[:20], kept[len(kept)-30:])
	}
}
