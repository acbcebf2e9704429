package lint

import (
	"slices"
	"strings"
)

const rulePathNotAllowed = "path-not-allowed"

var pathRules = []Rule{
	{
		// The verdicts look at the paths themselves, since the list differs from line to line.
		ID: rulePathNotAllowed, Severity: Warning,
		Effect: `imagers up to 1.8, installers on nodes up to 1.9 and the official catalogue's validator stop with "path ... is not allowed in extensions"; imagers from 1.9 on and Image Factory do not look`,
		tree:   checkAllowed,
	},
	{
		ID: "path-replaces-link", Severity: Error,
		Effect: "from 1.10 on /bin, /lib, /lib64 and /sbin are links into /usr: a directory or file of that name replaces the link, and the node does not come up",
		tree: func(s *scope) {
			recent := s.targetsWhere(func(r release) bool { return !lineOf(r.version).before(s.facts.paths.MergedFrom) })
			if len(recent) == 0 {
				return
			}

			for _, dir := range s.facts.paths.Merged {
				if e := s.tree.files[rootfsName+dir]; e != nil {
					s.found(e.name, "%s is a link of Talos's own from v%s.0 on", dir, s.facts.paths.MergedFrom)
				}
			}
		},
	},
	{
		ID: "path-mounted-over", Severity: Error,
		Effect: "Talos mounts another file system here at run time: what the extension brings is never seen (all versions)",
		tree: func(s *scope) {
			for name, e := range s.tree.files {
				node, ok := nodePath(name)
				if !ok || e.isDir() {
					continue
				}

				if slices.ContainsFunc(s.facts.paths.MountedOver, func(dir string) bool { return strings.HasPrefix(node, dir+"/") }) {
					s.found(e.name, "the file lies below a mount point")
				}
			}
		},
	},
}

func checkAllowed(s *scope) {
	var (
		refusing []release
		examples []string
	)

	for _, r := range s.targets {
		if paths := s.facts.refused(s.tree, lineOf(r.version)); len(paths) > 0 {
			refusing = append(refusing, r)
			examples = paths
		}
	}

	if len(refusing) == 0 {
		return
	}

	severity := Warning
	if s.asked != nil && lineOf(*s.asked).before(line{1, 9}) {
		severity = Error
	}

	s.foundAs(severity, rootfsName+examples[0], "%s outside the list of allowed ones of %s",
		countOf(len(examples), "path lies", "paths lie"), spanOf(refusing))
}

// refused returns the paths of the node that the content check of a release line refuses, sorted.
func (f *facts) refused(t *tree, l line) []string {
	var refused []string

	for _, allowed := range f.paths.Allowed {
		if !l.before(allowed.From) {
			refused = t.refusedFrom[allowed.From]
		}
	}

	return refused
}

func notAllowed(t *tree, prefixes []string) []string {
	var refused []string

	for name, e := range t.files {
		node, ok := nodePath(name)
		if !ok || e.isDir() || node == "/" {
			continue
		}

		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(node, prefix) }) {
			refused = append(refused, node)
		}
	}

	slices.Sort(refused)

	return refused
}
