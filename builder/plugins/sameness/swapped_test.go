package sameness_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// A proof that cannot fail is none: with bridge under the name ptp, the same cases must differ, by what
// the plugin says, by what it answers and by what it does; and without the swap they must not.
func TestSwappedPluginIsNoticed(t *testing.T) {
	t.Parallel()
	requireTools(t)

	set := buildertest.Plugins(t, runtime.GOARCH)
	right, swapped := lay(t, set), lay(t, set)

	if err := os.Rename(filepath.Join(swapped, "bridge"), filepath.Join(swapped, "ptp")); err != nil {
		t.Fatal(err)
	}

	for name, parts := range map[string][]string{
		"ptp":           {"ptp ADD:", "ptp ADD, then the node's links:", "ptp ADD, then the node's addresses:"},
		"faults of ptp": {"ptp without a command:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			first := play(t, byName(t, name), right)

			if differences := sameness.Compare(first.Records, play(t, byName(t, name), right).Records); len(differences) > 0 {
				t.Errorf("the same plugins differ: %q", differences)
			}

			differences := sameness.Compare(first.Records, play(t, byName(t, name), swapped).Records)

			for _, part := range parts {
				if !slices.ContainsFunc(differences, func(d string) bool { return strings.HasPrefix(d, part) }) {
					t.Errorf("no difference in %q: %q", part, differences)
				}
			}
		})
	}
}

func byName(t *testing.T, name string) sameness.Case {
	t.Helper()

	cases := sameness.Cases()

	i := slices.IndexFunc(cases, func(c sameness.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case is called %q", name)
	}

	return cases[i]
}
