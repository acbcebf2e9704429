package plugins_test

import (
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/plugins"
)

// TestMergeRefusesSharedState: what is harmless in a program of its own may not be in a merged one.
func TestMergeRefusesSharedState(t *testing.T) {
	t.Parallel()

	const good = "package main\n\nfunc main() {}\n"

	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"cgo":                {map[string]string{"a.go": good, "b.go": "package main\n\nimport \"C\"\n"}, "b.go uses cgo"},
		"C source":           {map[string]string{"a.go": good, "b.c": ""}, "b.c is neither Go nor a test"},
		"header":             {map[string]string{"a.go": good, "b.h": ""}, "b.h is neither Go nor a test"},
		"published state":    {map[string]string{"a.go": "package main\n\nimport _ \"expvar\"\n\nfunc main() {}\n"}, "it imports expvar, whose state is the whole program's"},
		"profiling":          {map[string]string{"a.go": "package main\n\nimport _ \"net/http/pprof\"\n\nfunc main() {}\n"}, "it imports net/http/pprof, whose state is the whole program's"},
		"setting":            {map[string]string{"a.go": "//go:debug madvdontneed=1\n" + good}, "a.go has the directive //go:debug madvdontneed=1"},
		"init":               {map[string]string{"a.go": good, "b.go": "package main\n\nimport \"os\"\n\nfunc init() { os.Clearenv() }\n"}, "b.go: its init function does more than to call runtime.LockOSThread"},
		"init after locking": {map[string]string{"a.go": good + "\nfunc init() {\n\truntime.LockOSThread()\n\tprintln()\n}\n"}, "a.go: its init function does more"},
		"init of other name": {map[string]string{"a.go": good + "\nfunc init() { other.LockOSThread() }\n"}, "a.go: its init function does more"},
		"call":               {map[string]string{"a.go": good + "\nvar x, y = 1, []int{len(z), f()}\n"}, "a.go: variable x is computed before main"},
		"literal called":     {map[string]string{"a.go": good + "\nvar x = func() int { return 1 }()\n"}, "a.go: variable x is computed before main"},
		"receive":            {map[string]string{"a.go": good + "\nvar c chan int\n\nvar x = <-c\n"}, "a.go: variable x is computed before main"},
		"entry as variable":  {map[string]string{"a.go": good + "\nvar MulticallMain int\n"}, "a.go already declares MulticallMain"},
		"entry as type":      {map[string]string{"a.go": good + "\ntype MulticallMain int\n"}, "a.go already declares MulticallMain"},
		"main as type":       {map[string]string{"a.go": "package main\n\ntype main int\n"}, "a.go declares main as something else than a function"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := plugins.GenerateMerged(pluginSource(t, test.files), "m", loadPin(t), "amd64", selection(t, "static"))
			if want := "plugin static cannot be merged: " + test.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}

// TestMergeAllowsWhatPluginsDo: the checks are no stricter than upstream's plugins need.
func TestMergeAllowsWhatPluginsDo(t *testing.T) {
	t.Parallel()

	const body = `package main

import "runtime"

var names, more = []string{"a"}, map[string]*int{}

var later = func() string { return runtime.Version() }

var _ interface{ main() } = &t{}

const size = len("constant")

type t struct{}

func (*t) main()          {}
func (*t) init()          { println() }
func (*t) MulticallMain() {}

func init() {
	// Namespaces belong to threads.
	runtime.LockOSThread()
}

func main() {}
`

	if _, err := plugins.GenerateMerged(pluginSource(t, map[string]string{"a.go": body}), "m", loadPin(t), "amd64", selection(t, "static")); err != nil {
		t.Error(err)
	}
}
