package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is a version of the CNI specification.
type version [3]int

// newestVersion is the newest that libcni 1.3 knows.
var newestVersion = version{1, 1, 0}

// oldestVersion is what a configuration without cniVersion means.
const oldestVersion = "0.1.0"

// parseVersion reads one to three numbers, as libcni does; nothing means the oldest version.
func parseVersion(s string) (version, error) {
	var v version

	fields := strings.SplitN(cmp.Or(s, oldestVersion), ".", len(v)+1)

	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil || i == len(v) {
			return v, fmt.Errorf("%q is not a version", s)
		}

		v[i] = n
	}

	return v, nil
}

func (v version) newer(than version) bool {
	return slices.Compare(v[:], than[:]) > 0
}

// newestOf returns the newest of the versions that libcni knows as well.
func newestOf(versions []string) string {
	var (
		best   string
		newest version
	)

	for _, s := range versions {
		if v, err := parseVersion(s); err == nil && v.newer(newest) && !v.newer(newestVersion) {
			best, newest = s, v
		}
	}

	return best
}

// examineVersion says whether a plugin supports the version of the specification that it is called with.
func (d *doctor) examineVersion(to *[]Finding, where string, c *call, p *program, path string) {
	asked := cmp.Or(c.cniVersion, oldestVersion)
	if p.supported == nil || slices.Contains(p.supported, asked) {
		return
	}

	shown := asked
	if c.cniVersion == "" {
		shown += ", which a configuration without cniVersion means"
	}

	d.report(to, UnsupportedVersion, todo("Set \"cniVersion\" of %s to %q, or replace %s by a release that supports %s.", where, newestOf(p.supported), path, asked),
		"%s supports cniVersion %s, but not %s", path, strings.Join(p.supported, " "), shown)
}
