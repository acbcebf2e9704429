package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

const criDir = rootfsName + "/etc/cri/conf.d/"

var containerdRules = []Rule{
	{
		ID: "part-invalid", Severity: Error,
		Effect: "Talos cannot merge the parts into the runtime's configuration: containerd for pods does not start (all versions)",
		tree: func(s *scope) {
			for _, p := range s.tree.parts {
				if p.err != nil {
					s.found(p.entry.name, "%v", p.err)
				}
			}
		},
	},
	{
		ID: "part-not-read", Severity: Warning,
		Effect: "Talos merges regular files called *.part in /etc/cri/conf.d and nothing else: the file has no effect (all versions)",
		tree: func(s *scope) {
			for name, e := range s.tree.files {
				below, ok := strings.CutPrefix(name, criDir)
				if !ok || e.isDir() || s.facts.criFileNames[below] || strings.HasPrefix(below, "hosts/") {
					continue
				}

				if strings.Contains(below, "/") || !strings.HasSuffix(below, ".part") {
					s.found(e.name, "the file is not called *.part")
				}
			}
		},
	},
	{
		ID: "part-replaces-talos", Severity: Error,
		Effect: "the file replaces one that Talos ships or writes itself: the runtime loses Talos's settings or the registry configuration (all versions)",
		tree: func(s *scope) {
			for name, e := range s.tree.files {
				if below, ok := strings.CutPrefix(name, criDir); ok && s.facts.criFileNames[below] {
					s.found(e.name, "Talos has a file of this name itself")
				}
			}
		},
	},
	{
		ID: "part-version", Severity: Error,
		Effect: "the merged configuration gets this version: containerd reads everything in it, Talos's own part too, by another format (from 1.8 on, which write version 3)",
		tree: func(s *scope) {
			for _, p := range s.tree.parts {
				if v, ok := p.table["version"]; ok && v != int64(3) {
					s.found(p.entry.name, "the part sets version = %v", v)
				}
			}
		},
	},
	{
		ID: "part-key-unknown", Severity: Warning,
		Effect: "containerd passes over keys it does not know: the setting has no effect",
		tree:   func(s *scope) { checkKeys(s, false) },
	},
	{
		ID: "part-key-too-new", Severity: Error,
		Effect: "containerd of this Talos does not know the key yet and passes over it: bin_dirs needs containerd 2.1, that is Talos 1.11",
		tree:   func(s *scope) { checkKeys(s, true) },
	},
	{
		ID: "part-bin-dirs", Severity: Error,
		Effect: "the runtime no longer looks where Talos keeps its own plugins (loopback, flannel): no pod starts (from 1.11 on)",
		tree: func(s *scope) {
			for _, p := range s.tree.parts {
				if dir := s.facts.paths.PluginDir; p.setsBinDirs && !slices.Contains(p.binDirs, dir) {
					s.found(p.entry.name, "bin_dirs does not list %s", dir)
				}
			}
		},
	},
	{
		ID: "part-bin-dir-empty", Severity: Warning,
		Effect: "the runtime is told to look in a directory that neither this extension nor Talos has (from 1.11 on)",
		tree: func(s *scope) {
			for _, p := range s.tree.parts {
				for _, dir := range p.binDirs {
					if dir != s.facts.paths.PluginDir && s.tree.at(dir) == nil {
						s.found(p.entry.name, "the extension has no %s", dir)
					}
				}
			}
		},
	},
}

// part is a file that Talos merges into containerd's configuration.
type part struct {
	entry       *entry
	err         error
	table       map[string]any
	setsBinDirs bool
	binDirs     []string
}

// readParts returns the files Talos merges, in its order.
func readParts(t *tree) []part {
	var parts []part

	for name, e := range t.files {
		if path.Dir(name)+"/" == criDir && strings.HasSuffix(name, ".part") && e.isFile() {
			parts = append(parts, parsePart(e))
		}
	}

	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.entry.path, b.entry.path) })

	return parts
}

func parsePart(e *entry) (p part) {
	p.entry = e

	if e.data == nil {
		p.err = fmt.Errorf("the file has more than %d bytes", maxText)

		return p
	}

	defer recoverAs(&p.err)

	if p.err = toml.Unmarshal(e.data, &p.table); p.err != nil {
		return p
	}

	const runtimePlugin = "io.containerd.cri.v1.runtime"

	plugins, _ := p.table["plugins"].(map[string]any)
	runtime, _ := plugins[runtimePlugin].(map[string]any)
	cni, _ := runtime["cni"].(map[string]any)

	var dirs []any
	dirs, p.setsBinDirs = cni["bin_dirs"].([]any)

	for _, dir := range dirs {
		if text, ok := dir.(string); ok {
			p.binDirs = append(p.binDirs, path.Clean(text))
		}
	}

	return p
}

// checkKeys holds the keys of parts to those of containerd's plugins.
func checkKeys(s *scope, tooNew bool) {
	for _, p := range s.tree.parts {
		plugins, _ := p.table["plugins"].(map[string]any)

		for _, plugin := range slices.Sorted(maps.Keys(plugins)) {
			known, ok := s.facts.containerd[plugin]
			table, isTable := plugins[plugin].(map[string]any)

			if ok && isTable {
				s.checkTable(p.entry, plugin, known, nil, table, tooNew)
			}
		}
	}
}

func (s *scope) checkTable(e *entry, plugin string, known []containerdKey, prefix []string, table map[string]any, tooNew bool) {
	const deepest = 16

	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := append(slices.Clone(prefix), name)

		since, ok := lookupKey(known, key)
		if !ok {
			// A name that users choose is no key itself.
			if inner, isTable := table[name].(map[string]any); isTable && len(key) < deepest && isPrefix(known, key) {
				s.checkTable(e, plugin, known, key, inner, tooNew)
			} else if !tooNew {
				s.found(e.name, "%s has no key %s", plugin, strings.Join(key, "."))
			}

			continue
		}

		if old := s.targetsWhere(func(r release) bool { return r.containerd.before(since) }); tooNew && len(old) > 0 {
			severity := Error
			if s.asked == nil {
				severity = Warning
			}

			s.foundAs(severity, e.name, "%s of %s needs containerd %s, which %s lacks", strings.Join(key, "."), plugin, since, spanOf(old))
		}

		if inner, isTable := table[name].(map[string]any); isTable && len(key) < deepest {
			s.checkTable(e, plugin, known, key, inner, tooNew)
		}
	}
}

// lookupKey returns since when a key is known.
func lookupKey(known []containerdKey, key []string) (line, bool) {
	for _, k := range known {
		if matches(k.key, key) && (len(k.key) == len(key) || k.key[len(k.key)-1] == "**") {
			return k.since, true
		}
	}

	return line{}, false
}

// isPrefix reports whether keys below this one are known.
func isPrefix(known []containerdKey, key []string) bool {
	return slices.ContainsFunc(known, func(k containerdKey) bool { return len(k.key) > len(key) && matches(k.key, key) })
}

// matches compares as many parts as both have; ** matches everything that follows.
func matches(pattern, key []string) bool {
	for i := range min(len(pattern), len(key)) {
		if pattern[i] == "**" {
			return true
		}

		if pattern[i] != "*" && pattern[i] != key[i] {
			return false
		}
	}

	return true
}
