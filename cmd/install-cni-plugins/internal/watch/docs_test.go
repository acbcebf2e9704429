package watch

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// found returns the first group of every match, sorted, each once.
func found(pattern, text string) []string {
	var all []string

	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}

	slices.Sort(all)

	return slices.Compact(all)
}

// The docs list the metrics that there are, and advise alerts on no others.
func TestDocsListTheMetrics(t *testing.T) {
	t.Parallel()

	exposed := found(`(?m)^# TYPE cni_plugins_(\w+) `, string(newNode(t).step().pages.Load().metrics))

	installer, err := os.ReadFile("../../../../docs/installer.md")
	must(t, err)

	_, table, _ := strings.Cut(string(installer), "| metric (`cni_plugins_...`)")
	table, _, _ = strings.Cut(table, "\n\n")

	listed := found("`(\\w+)", strings.Join(found(`(?m)^\| (.+?) \|`, table), "\n"))

	if diff := cmp.Diff(exposed, listed); diff != "" {
		t.Errorf("docs/installer.md (-metrics +docs):\n%s", diff)
	}

	guide, err := os.ReadFile("../../../../docs/kubernetes.md")
	must(t, err)

	for _, name := range found(`cni_plugins_(\w+)`, string(guide)) {
		if !slices.Contains(exposed, name) {
			t.Errorf("docs/kubernetes.md: there is no metric cni_plugins_%s", name)
		}
	}
}
