package lint

import "strings"

var treeRules = []Rule{
	{
		ID: "root-unexpected", Severity: Error, Refuses: []Step{StepLoad},
		Effect: `the imager stops with "unexpected file": beside manifest.yaml and rootfs nothing may lie at the root (all versions)`,
		tree:   checkRoot,
	},
	{
		ID: "manifest-missing", Severity: Error, Refuses: []Step{StepLoad},
		Effect: `the imager stops with "extension manifest is missing" (all versions)`,
		tree:   func(s *scope) { s.needs(manifestName) },
	},
	{
		ID: "manifest-not-file", Severity: Error, Refuses: []Step{StepLoad},
		Effect: "manifest.yaml must be a regular file: the imager reads whatever lies behind it on the machine that builds, or stops (all versions)",
		tree: func(s *scope) {
			if e := s.tree.files[manifestName]; e != nil && !e.isFile() {
				s.found(e.name, "manifest.yaml is %s", typeName(e.typ))
			}
		},
	},
	{
		ID: "rootfs-missing", Severity: Error, Refuses: []Step{StepLoad},
		Effect: `the imager stops with "extension rootfs is missing" (all versions)`,
		tree:   func(s *scope) { s.needs(rootfsName) },
	},
	{
		ID: "rootfs-not-directory", Severity: Error,
		Effect: "rootfs must be a directory: what the imager packs otherwise is not a file system (all versions)",
		tree: func(s *scope) {
			if e := s.tree.files[rootfsName]; e != nil && !e.isDir() {
				s.found(e.name, "rootfs is %s", typeName(e.typ))
			}
		},
	},
	{
		ID: "rootfs-empty", Severity: Warning,
		Effect: "nothing gets to the node: the extension is listed as installed and does nothing (all versions)",
		tree: func(s *scope) {
			if e := s.tree.files[rootfsName]; e != nil && e.isDir() && !s.tree.hasFiles() {
				s.found(rootfsName, "rootfs holds no file")
			}
		},
	},
	{
		ID: "parent-missing", Severity: Error, Refuses: []Step{StepStrictParents},
		Effect: "up to 1.13 the imager stops with \"no such file or directory\"; from 1.14 it creates the directory with mode 0700, which becomes the mode of the node's own directory",
		tree:   func(s *scope) { checkParents(s, false) },
	},
	{
		ID: "parent-late", Severity: Error, Refuses: []Step{StepStrictParents},
		Effect: "a directory that comes after what it holds is missing when it is needed: up to 1.13 the imager stops with \"no such file or directory\"",
		tree:   func(s *scope) { checkParents(s, true) },
	},
	{
		ID: "dir-mode", Severity: Error,
		Effect: "the directory's mode becomes that of the node's own: programs that do not run as root lose what lies below it, or gain the right to write there (all versions)",
		tree:   func(s *scope) { checkDirModes(s, true) },
	},
	{
		ID: "dir-mode-private", Severity: Warning,
		Effect: "a directory of the extension itself is not 0755: what is below it may be out of reach for programs that do not run as root (all versions)",
		tree:   func(s *scope) { checkDirModes(s, false) },
	},
	{
		ID: "dir-special-bits", Severity: Warning,
		Effect: "setuid, setgid and sticky bits of directories are dropped without a word (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if _, ok := e.node(); ok && e.isDir() && hasSpecialBits(e.mode) {
					s.found(e.name, "the directory has the mode %s", e.mode)
				}
			}
		},
	},
}

func (s *scope) needs(name string) {
	if s.tree.files[name] == nil {
		s.found("", "there is no %s at the root", name)
	}
}

func checkRoot(s *scope) {
	reported := make(map[string]bool)

	for _, e := range s.tree.entries {
		top, _, _ := strings.Cut(e.path, "/")
		if top == "." || top == manifestName || top == rootfsName || reported[top] || e.dropped != "" || isGlobalHeader(e) {
			continue
		}

		reported[top] = true

		s.found(top, "%s lies at the root", top)
	}
}

// checkParents looks for entries whose directory is not there yet, because it comes later or never.
func checkParents(s *scope, late bool) {
	there := map[string]bool{".": true}
	reported := make(map[string]bool)

	for _, e := range s.tree.entries {
		if e.dropped != "" || isGlobalHeader(e) {
			continue
		}

		// Whatever lies above a directory that was seen or reported was looked at then.
		for dir := parent(e.path); !there[dir] && !reported[dir]; dir = parent(dir) {
			reported[dir] = true

			switch isLate := s.tree.files[dir] != nil; {
			case isLate && late:
				s.found(dir, "the directory's entry comes after that of %s", e.path)
			case !isLate && !late:
				s.found(dir, "the directory of %s has no entry", e.path)
			}
		}

		there[e.path] = true
	}
}

// parent returns the directory of a clean path.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}

	return "."
}

// checkDirModes looks for directories that are not 0755, among Talos's own or among the others.
func checkDirModes(s *scope, shared bool) {
	for _, e := range s.tree.entries {
		node, ok := e.node()
		if !ok || !e.isDir() || e.dropped != "" || s.facts.sharedDirs[node] != shared {
			continue
		}

		// The imager always lets the owner read, write and enter.
		mode := e.mode.Perm() | 0o700
		if mode != 0o755 && mode&0o002 == 0 {
			s.found(e.name, "the directory has mode %04o instead of 0755", e.mode.Perm())
		}
	}
}
