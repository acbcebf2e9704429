package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/needs"
)

// haveLint reports whether the cnibake under test has the lint command. In CI it must have.
func haveLint(t *testing.T) bool {
	t.Helper()

	lookForLint.Do(func() { lintFound = exec.Command(artifact.Command(t), "lint", "--help").Run() == nil })

	switch {
	case lintFound:
	case needs.CI():
		t.Error("this cnibake has no lint command")
	default:
		t.Log("this cnibake has no lint command: only the imagers were asked")
	}

	return lintFound
}

var (
	lookForLint sync.Once
	lintFound   bool
)

// lint returns whether lint finds errors, and the rules that found them.
func lint(t *testing.T, path string, args ...string) (flagged bool, rules []string) {
	t.Helper()

	cmd := exec.Command(artifact.Command(t), append([]string{"lint", path, "-o", "json"}, args...)...)

	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	out, err := cmd.Output()

	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}

	code := cmd.ProcessState.ExitCode()

	// A crash of a Go program has the exit code of a clear answer.
	if bytes.Contains(stderr.Bytes(), []byte("\ngoroutine ")) {
		t.Fatalf("lint crashes: %s", stderr.Bytes())
	}

	if code == 2 {
		// It is no extension at all to lint: the message says so, and there are no findings.
		return true, []string{"unreadable: " + strings.TrimSpace(stderr.String())}
	}

	var report struct {
		Findings []struct {
			Rule     string `json:"rule"`
			Severity string `json:"severity"`
		} `json:"findings"`
	}

	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("decoding lint's report: %v: %s%s", err, out, stderr.Bytes())
	}

	for _, finding := range report.Findings {
		if finding.Severity == "error" && !slices.Contains(rules, finding.Rule) {
			rules = append(rules, finding.Rule)
		}
	}

	if (code != 0) != (len(rules) > 0) {
		t.Errorf("lint exits %d with errors from %v", code, rules)
	}

	return code != 0, rules
}

// wantLint compares lint's verdict for a Talos release, or for all that the extension admits, with
// what it has to be.
func wantLint(t *testing.T, path string, want bool, talos string) {
	t.Helper()

	if !haveLint(t) {
		return
	}

	var args []string
	if talos != "" {
		args = []string{"--talos", talos}
	}

	flagged, rules := lint(t, path, args...)
	t.Logf("lint %s: errors %v", talos, rules)

	if flagged != want {
		t.Errorf("lint %s finds errors: %t, want %t", talos, flagged, want)
	}
}
