package doctor

import (
	"path/filepath"
	"strings"
)

// search is one place in which a plugin was looked for.
type search struct {
	// path is where the name would be.
	path string
	file *file
	// err says why the path leads nowhere.
	err error
}

// find looks a plugin up as libcni's invoke.FindInPath does: the first directory in which the name is a
// regular file, symlinks followed, wins; whether it can be executed does not count. found is -1 where
// there is none.
func (v *view) find(name string, dirs []string) (tried []search, found int) {
	found = -1

	if !findable(name) {
		return nil, found
	}

	for _, dir := range dirs {
		s := search{path: filepath.Join(dir, name)}
		s.file, s.err = v.resolve(s.path)

		if s.err == nil && s.file.isRegular() && found < 0 {
			found = len(tried)
		}

		tried = append(tried, s)
	}

	return tried, found
}

// findable reports whether libcni would look for a name at all.
func findable(name string) bool {
	return name != "" && !strings.Contains(name, "/")
}
