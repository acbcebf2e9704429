package corpus

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/cnibake/cnibake/hack/talos/needs"
)

var (
	seeds     = flag.Int("seeds", 100, "number of generated archives")
	firstSeed = flag.Uint64("first-seed", 1, "the first of them")
)

// TestRandom holds lint to what the imagers say of archives that nobody thought of: it never passes
// what one of them rejects or visibly ruins.
func TestRandom(t *testing.T) {
	needs.Root(t)

	g, lines := newGood(t), releases(t)

	linted := haveLint(t)
	outcomes := map[Outcome]int{}

	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		// A test of its own, so that its files are gone before the next one.
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			archive := Random(g.archive, seed)
			path := write(t, archive)

			for _, line := range lines {
				got, why := judge(t, line, archive, path, "")
				outcomes[got]++

				if got == Accept || !linted {
					continue
				}

				if flagged, _ := lint(t, path, "--talos", line.version); !flagged {
					t.Errorf("lint passes what %s would %s: %s", line.version, got, why)
				}
			}
		})
	}

	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%s: %d", outcome, outcomes[outcome])
	}
}
