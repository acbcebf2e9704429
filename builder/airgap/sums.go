package airgap

import (
	"fmt"
	"strings"

	"github.com/cnibake/cnibake/builder/sums"
)

// sumsOf lists members.
func sumsOf(members []member) []sums.Sum {
	all := make([]sums.Sum, 0, len(members))
	for _, m := range members {
		all = append(all, sums.Sum{Hex: m.hex, Name: m.name})
	}

	return all
}

// checkFiles compares the members of a bundle with the build's own sums, which list the blobs of its
// layouts as well.
func checkFiles(members []sums.Sum, build []byte) error {
	listed, err := sums.Parse(build)
	if err != nil {
		return fmt.Errorf("%s%w", filesDir, err)
	}

	have := make(map[string]string)
	for _, s := range members {
		have[s.Name] = s.Hex
	}

	var wrong sums.Differences

	want := make(map[string]bool)
	for _, name := range unlisted {
		want[filesDir+name] = true
	}

	for _, s := range listed {
		name := filesDir + s.Name

		if _, inLayout, nested := strings.Cut(s.Name, "/"); nested {
			if !strings.HasPrefix(inLayout, blobsDir) {
				continue
			}

			name = inLayout
		}

		want[name] = true

		switch hex, ok := have[name]; {
		case !ok:
			wrong.Missing(name)
		case hex != s.Hex:
			wrong.Altered(name)
		}
	}

	for name := range have {
		if strings.HasPrefix(name, filesDir) && !want[name] {
			wrong.Extra(name)
		}
	}

	if err := wrong.Err(); err != nil {
		return fmt.Errorf("%w (by %s)", err, filesDir+sums.Name)
	}

	return nil
}
