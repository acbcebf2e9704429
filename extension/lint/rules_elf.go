package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

var elfRules = []Rule{
	{
		ID: "elf-machine", Severity: Error,
		Effect: `programs of another machine do not start: "exec format error" (all versions)`,
		tree: func(s *scope) {
			if s.tree.arch == "" {
				return
			}

			for _, e := range s.programs() {
				if e.program.arch != s.tree.arch && !runsToo(e.program.arch, s.tree.arch) {
					s.found(e.name, "the file is for %s, the image for %s", e.program.arch, s.tree.arch)
				}
			}
		},
	},
	{
		ID: "elf-mixed", Severity: Error,
		Effect: "programs for several machines in one tree: some do not start on any node (all versions)",
		tree:   checkMixed,
	},
	{
		ID: "elf-damaged", Severity: Error,
		Effect: "a program that was cut short or is not readable as ELF does not start (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.program != nil && e.program.damaged && !isBlob(e.path) {
					s.found(e.name, "the file begins like an ELF program and is not a whole one")
				}
			}
		},
	},
	{
		ID: "program-empty", Severity: Error,
		Effect: `an executable file without content does not start: "exec format error" (all versions)`,
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if _, ok := e.node(); ok && e.isFile() && e.size == 0 && e.mode.Perm()&0o111 != 0 {
					s.found(e.name, "the program is empty")
				}
			}
		},
	},
	{
		ID: "elf-dynamic", Severity: Error,
		Effect: `the kernel does not find the dynamic loader, which Talos does not have: the runtime reports "no such file" for a CNI plugin that is there (all versions)`,
		tree:   func(s *scope) { checkLoaders(s, true) },
	},
	{
		ID: "elf-loader-missing", Severity: Warning,
		Effect: `the program needs a dynamic loader that is neither in Talos nor in this extension: "no such file" unless another extension brings it (all versions)`,
		tree:   func(s *scope) { checkLoaders(s, false) },
	},
	{
		ID: "plugin-not-executable", Severity: Error,
		Effect: "the runtime cannot start a CNI plugin without its execute bits: pods that need it do not start (all versions)",
		tree: func(s *scope) {
			for _, e := range s.programs() {
				if s.isPlugin(e) && e.mode.Perm()&0o111 != 0o111 {
					s.found(e.name, "mode %04o does not let everyone execute the plugin", e.mode.Perm())
				}
			}
		},
	},
	{
		ID: "program-not-executable", Severity: Warning,
		Effect: "a program without any execute bit cannot be started (all versions)",
		tree: func(s *scope) {
			for _, e := range s.programs() {
				if e.program.executable && !s.isPlugin(e) && e.mode.Perm()&0o111 == 0 {
					s.found(e.name, "mode %04o lets nobody execute the program", e.mode.Perm())
				}
			}
		},
	},
}

// programs returns the whole ELF files that the node's own processor may have to run.
func (s *scope) programs() []*entry {
	var programs []*entry

	for _, e := range s.tree.entries {
		if e.program != nil && !e.program.damaged && !isBlob(e.path) && e.program.arch != "EM_BPF" {
			programs = append(programs, e)
		}
	}

	return programs
}

// isBlob recognises firmware, whose ELF files run on devices.
func isBlob(name string) bool {
	node, ok := nodePath(name)

	return ok && isFirmware(node)
}

// runsToo reports whether a machine runs programs of another.
func runsToo(program, machine string) bool {
	return program == "EM_386" && machine == "amd64" || program == "arm" && machine == "arm64"
}

func checkMixed(s *scope) {
	// Where the machine is known, elf-machine has said it.
	if s.tree.arch != "" {
		return
	}

	examples := make(map[string]string)

	for _, e := range s.programs() {
		if _, ok := examples[e.program.arch]; !ok {
			examples[e.program.arch] = e.name
		}
	}

	archs := make([]string, 0, len(examples))
	for arch := range examples {
		archs = append(archs, arch)
	}

	slices.SortFunc(archs, func(a, b string) int {
		// A machine that runs the other's programs comes first.
		if runsToo(b, a) {
			return -1
		}

		if runsToo(a, b) {
			return 1
		}

		return cmp.Compare(a, b)
	})

	for _, arch := range archs {
		if arch != archs[0] && !runsToo(arch, archs[0]) {
			s.found(examples[arch], "%s is for %s, %s for %s", examples[arch], arch, examples[archs[0]], archs[0])
		}
	}
}

// isPlugin reports whether an entry lies directly in a directory in which the runtime looks for CNI plugins:
// the usual one, or one that the extension's own part of the runtime's configuration names.
func (s *scope) isPlugin(e *entry) bool {
	node, ok := e.node()

	return ok && slices.Contains(s.tree.pluginDirs, path.Dir(node))
}

// checkLoaders looks for dynamic loaders that are not there, of plugins or of other programs.
func checkLoaders(s *scope, plugins bool) {
	for _, e := range s.programs() {
		loader := e.program.interpreter
		if loader == "" || s.isPlugin(e) != plugins {
			continue
		}

		root := containerRoot(e)

		switch {
		case plugins:
			s.found(e.name, "the plugin needs %s", loader)
		case s.tree.at(path.Join(root, loader)) != nil, root == "/" && s.tree.at(merged(loader)) != nil:
		default:
			s.found(e.name, "the program needs %s", loader)
		}
	}
}

// merged is where a path of /lib or /lib64 leads on a node.
func merged(name string) string {
	for _, dir := range []string{"/lib64/", "/lib/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			return "/usr/lib/" + rest
		}
	}

	return name
}

// containerRoot returns the root file system of the service that an entry belongs to; "/" for others.
func containerRoot(e *entry) string {
	const containers = "/usr/local/lib/containers/"

	node, _ := e.node()

	rest, ok := strings.CutPrefix(node, containers)
	if !ok {
		return "/"
	}

	name, _, _ := strings.Cut(rest, "/")

	return containers + name
}
