package sameness_test

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// theSet is written out on purpose: what is compared must be what was decided.
var theSet = []string{
	"bandwidth", "bridge", "firewall", "host-device", "host-local", "ipvlan", "macvlan",
	"portmap", "ptp", "sbr", "static", "tuning", "vlan", "vrf",
}

// kernelOf names the kind of link without which a plugin cannot succeed, for those whose kind is not
// in every kernel. The boot test plays their cases where it is.
var kernelOf = map[string]string{"ipvlan": "ipvlan", "vlan": "vlan", "vrf": "vrf"}

// TestMergedIsSeparate plays every case with the plugins as programs of their own and as copies of
// the merged program, which is what images carry, and finds no difference.
func TestMergedIsSeparate(t *testing.T) {
	if testing.Short() {
		t.Skip("calls every plugin some hundred times: left out with -short")
	}

	t.Parallel()
	requireTools(t)

	separate := lay(t, buildertest.Plugins(t, runtime.GOARCH))
	merged := lay(t, buildertest.MergedPlugins(t, runtime.GOARCH))

	var tally tally

	t.Run("case", func(t *testing.T) {
		for _, c := range sameness.Cases() {
			t.Run(strings.ReplaceAll(c.Name, " ", "-"), func(t *testing.T) {
				t.Parallel()

				first, differences := compare(t, c, separate, merged)
				for _, difference := range differences {
					t.Errorf("merged (+) is not separate (-): %s", difference)
				}

				tally.add(t, first)
			})
		}
	})

	tally.check(t)
}

// compare plays a case on both sides. What differs is played once more: a difference between the
// programs is there again, one of the kernel's timing is not.
func compare(t *testing.T, c sameness.Case, separate, merged string) (first played, differences []string) {
	t.Helper()

	const attempts = 2

	for range attempts {
		var second played

		first, second = play(t, c, separate), play(t, c, merged)

		if differences = sameness.Compare(first.Records, second.Records); len(differences) == 0 {
			break
		}

		t.Logf("differences, to be looked at again: %v", differences)
	}

	return first, differences
}

// lay writes a set's files as an image has them, each under its name.
func lay(t *testing.T, set *plugins.Set) string {
	t.Helper()

	dir := t.TempDir()

	for _, plugin := range set.Manifest.Plugins {
		data, err := os.ReadFile(set.Files[plugin.File].Path)
		if err != nil {
			t.Fatal(err)
		}

		// A process forked meanwhile would have the file open for writing, and it could not be executed.
		syscall.ForkLock.RLock()
		err = os.WriteFile(filepath.Join(dir, plugin.Name), data, 0o755)
		syscall.ForkLock.RUnlock()

		if err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// tally counts what was played, over all cases.
type tally struct {
	mu           sync.Mutex
	calls, looks int
	exits        map[int]int
	// works are plugins of which an ADD succeeded, told those that said who they are, lacks kinds of
	// links that the kernel has not.
	works, told, lacks map[string]bool
}

func (y *tally) add(t *testing.T, result played) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()

	if y.exits == nil {
		y.exits, y.works, y.lacks, y.told = make(map[int]int), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	}

	for _, kind := range result.Lacks {
		y.lacks[kind] = true
	}

	for _, record := range result.Records {
		call, answer := record.Call, record.Answer
		y.calls++
		y.exits[answer.Exit]++

		if len(record.Seen) > 0 {
			y.looks++
		}

		if call.Succeeds && answer.Exit != 0 && len(result.Lacks) == 0 {
			t.Errorf("%s must succeed: exit code %d\n%s%s", call.Label(), answer.Exit, answer.Stdout, answer.Stderr)
		}

		if call.Command == "ADD" && answer.Exit == 0 {
			y.works[call.Plugin] = true
		}

		if call.Command == "" && strings.HasPrefix(answer.Stderr, "CNI "+call.Plugin+" plugin v1.9.1\n") {
			y.told[call.Plugin] = true
		}
	}
}

// check finds out whether the cases were worth something.
func (y *tally) check(t *testing.T) {
	t.Helper()

	for _, plugin := range theSet {
		if !y.works[plugin] && !y.lacks[kernelOf[plugin]] {
			t.Errorf("no ADD of %s succeeded", plugin)
		}

		if !y.told[plugin] {
			t.Errorf("%s did not say its name and version", plugin)
		}
	}

	if succeeded := y.exits[0]; succeeded < 200 || y.calls-succeeded < 200 || y.looks < 100 {
		t.Errorf("too little to go by: %d calls, of which %d succeeded, and %d looks", y.calls, succeeded, y.looks)
	}

	t.Logf("%d calls to each, of which %d succeeded, and %d looks at the node; the kernel lacks %v", y.calls, y.exits[0], y.looks, slices.Sorted(maps.Keys(y.lacks)))
}
