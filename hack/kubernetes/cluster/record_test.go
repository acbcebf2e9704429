package cluster

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var results = flag.String("results", "", "write what was seen into this file")

// record is what this run has seen, in order.
var record struct {
	sync.Mutex
	steps []step
}

type step struct {
	test, what, seen string
	took             time.Duration
}

// show is one step of a story: a subtest without which those after it make no sense. What it returns is
// what was seen, for the results.
func show(t *testing.T, what string, run func(t *testing.T) string) {
	t.Helper()

	start := time.Now()

	var seen string

	if !t.Run(what, func(t *testing.T) { seen = run(t) }) {
		t.FailNow()
	}

	record.Lock()
	defer record.Unlock()

	record.steps = append(record.steps, step{strings.ReplaceAll(path.Base(t.Name()), "_", " "), what, seen, time.Since(start)})
}

const heading = `# Kubernetes, end to end

` + "`make e2e-kubernetes`" + ` (as root) runs Kubernetes itself on a node made of this machine, and wrote this page. [The tests](../hack/kubernetes/README.md) say what each step checks.

Run %s on %d cores: Kubernetes %s, Multus %s, containerd %s and %s, Linux %s, %s.
`

// writeResults writes the page with the results of a run in which nothing failed.
func writeResults(path string) error {
	var page strings.Builder

	programs := os.Getenv(programsVariable)

	fmt.Fprintf(&page, heading, time.Now().Format(time.DateOnly), runtime.NumCPU(),
		version(programs+"/kubelet", "--version"), linked(programs+"/multus/multus-daemon"),
		version("containerd", "--version"), version(programs+"/containerd/containerd", "--version"),
		version("uname", "-r"), runtime.Version())

	last := ""

	for _, step := range record.steps {
		if step.test != last {
			fmt.Fprintf(&page, "\n## %s\n\n| step | seconds | seen |\n|---|---|---|\n", step.test)
			last = step.test
		}

		fmt.Fprintf(&page, "| %s | %.1f | %s |\n", step.what, step.took.Seconds(), step.seen)
	}

	return os.WriteFile(path, []byte(page.String()), 0o644)
}

var versionNumber = regexp.MustCompile(`v?\d+\.\d+\.\d+`)

func version(program, flag string) string {
	out, err := exec.Command(program, flag).Output()
	if err != nil {
		return "unknown"
	}

	return versionNumber.FindString(string(out))
}

// linked is the version of the module whose program this is.
func linked(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}

	return info.Main.Version
}
