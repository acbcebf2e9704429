package main

import (
	"os"
	"slices"
)

type stagingFigures struct {
	// first writes all plugins into an empty directory, unchanged finds them right.
	first, unchanged, loopFirst, loopAgain float64
	memory                                 int64
}

// measureStaging stages the merged plugins with the installer, and the unstripped ones with the loop of
// shell that people use.
func (w *workshop) measureStaging() error {
	progress("staging")

	const rounds = 5

	var first, unchanged, loopFirst, loopAgain []float64

	for range rounds {
		dest := w.path("node")

		install := func() (usage, error) {
			return w.measure("", nil, w.installer, "install", "--strict", "--source", w.merged.dir, "--dest", dest)
		}
		loop := func() (usage, error) {
			return w.measure("", nil, "sh", "-ec", `for plugin in "$1"/*; do cp -f "$plugin" "$2"; done`, "sh", w.today.dir, dest)
		}

		for _, step := range []struct {
			do    func() (usage, error)
			empty bool
			taken *[]float64
		}{{install, true, &first}, {install, false, &unchanged}, {loop, true, &loopFirst}, {loop, false, &loopAgain}} {
			if step.empty {
				if err := os.RemoveAll(dest); err != nil {
					return err
				}

				if err := os.Mkdir(dest, 0o755); err != nil {
					return err
				}
			}

			taken, err := step.do()
			if err != nil {
				return err
			}

			*step.taken = append(*step.taken, taken.seconds)
		}
	}

	w.staging = stagingFigures{first: median(first), unchanged: median(unchanged), loopFirst: median(loopFirst), loopAgain: median(loopAgain)}

	var err error
	w.staging.memory, err = w.peak(nil, "", w.installer, "verify", "--source", w.merged.dir, "--dest", w.merged.dir)

	return err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))

	return sorted[len(sorted)/2]
}
