package lint

import (
	"path"
	"strings"
)

const (
	whiteoutPrefix = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

// flatten does to the entries of an image what the imager's extractor (go-containerregistry's
// mutate.Extract) does: from the topmost layer down, the first entry of a name wins, and a file or a
// whiteout hides what lies below its path. The order of the result is the order of unpacking.
func flatten(layers [][]*entry) []*entry {
	var (
		out    []*entry
		hidden = make(map[string]bool)
		opaque = make(map[string]bool)
		first  = make(map[string]int)
	)

	for i := len(layers) - 1; i >= 0; i-- {
		layerOpaque := make(map[string]bool)

		for _, e := range layers[i] {
			e.layer = i
			base := path.Base(e.path)
			whiteout := strings.HasPrefix(base, whiteoutPrefix)
			name := e.path

			switch {
			case base == opaqueWhiteout:
				layerOpaque[path.Dir(e.path)] = true
				e.dropped = dropWhiteout
			case whiteout:
				name = path.Join(path.Dir(e.path), strings.TrimPrefix(base, whiteoutPrefix))
				e.dropped = dropWhiteout
			}

			_, seen := hidden[name]

			switch {
			case e.dropped == dropWhiteout:
			case seen && first[name] == i:
				e.dropped = dropDuplicate
			case seen, below(hidden, name), below(opaque, name):
				e.dropped = dropHidden
			}

			if base != opaqueWhiteout && e.dropped != dropDuplicate && e.dropped != dropHidden {
				hidden[name] = whiteout || !e.isDir()
				first[name] = i
			}

			out = append(out, e)
		}

		for dir := range layerOpaque {
			opaque[dir] = true
		}
	}

	return out
}

// below reports whether a directory above name is in the set.
func below(set map[string]bool, name string) bool {
	for dir := parent(name); dir != "."; dir = parent(dir) {
		if set[dir] {
			return true
		}
	}

	return false
}
