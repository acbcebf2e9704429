package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/imager/quirks"
)

const ruleModulesKernel = "modules-kernel"

// moduleDirs are where imagers look for modules: from 1.10 on, and before.
var moduleDirs = []string{"/usr/lib/modules", "/lib/modules"}

// belowModules cuts off the directory of modules.
func belowModules(node string) (string, bool) {
	for _, dir := range moduleDirs {
		if below, ok := strings.CutPrefix(node, dir+"/"); ok {
			return below, true
		}
	}

	return "", false
}

var kernelRules = []Rule{
	{
		// The verdicts look at the kernels themselves, since they differ from release to release.
		ID: ruleModulesKernel, Severity: Error,
		Effect: "the imager looks for the modules of the kernel of its own Talos release and stops when there are none: \"copying kernel modules ... failed\"",
		tree:   checkModuleKernels,
	},
	{
		ID: "modules-range", Severity: Warning,
		Effect: "nearly every Talos release has another kernel: imagers of the others in the range stop with \"copying kernel modules ... failed\"",
		tree: func(s *scope) {
			others := s.targetsWhere(func(r release) bool { return !r.fits(s.tree) })
			if len(others) > 0 && slices.ContainsFunc(s.targets, func(r release) bool { return r.suits(s.tree) }) {
				s.found(rootfsName+others[0].modulesDir(), "the range also admits releases with other kernels, %s", spanOf(others))
			}
		},
	},
	{
		ID: "module-unsigned", Severity: Warning,
		Effect: "Talos's kernel loads modules with a signature of its own build only: the module does not load (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				node, _ := e.node()
				if _, ok := belowModules(node); ok && e.program != nil && !e.program.damaged && path.Ext(node) == ".ko" && !e.program.signed {
					s.found(e.name, "the module has no signature")
				}
			}
		},
	},
	{
		ID: "modules-dep", Severity: Note,
		Effect: "the imager runs depmod over all modules and puts the result on top: the extension's own lists are not used (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				node, _ := e.node()
				if below, ok := belowModules(node); ok && e.isFile() && strings.HasPrefix(path.Base(below), "modules.") {
					s.found(e.name, "the file is made anew for every image")
				}
			}
		},
	},
	{
		ID: "firmware-link", Severity: Error, Refuses: []Step{StepSquash},
		Effect: "the imager moves firmware file by file and follows links: one whose target is not in the extension, or was moved before, stops it (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if why := s.brokenFirmware(e); why != "" {
					s.found(e.name, "%s", why)
				}
			}
		},
	},
}

// readKernels returns the names in a directory of modules, sorted: the kernel versions it has modules for.
func readKernels(t *tree, modules string) []string {
	var kernels []string

	for name := range t.files {
		if below, ok := strings.CutPrefix(name, rootfsName+modules+"/"); ok {
			kernel, _, _ := strings.Cut(below, "/")
			kernels = append(kernels, kernel)
		}
	}

	slices.Sort(kernels)

	return slices.Compact(kernels)
}

// modulesDir is where the imager of the release looks for modules.
func (r release) modulesDir() string {
	return quirks.New(r.version.String()).KernelModulesPath()
}

// fits reports whether the imager of a release can use the tree's modules: it has none, or some for the
// release's kernel, or that kernel is not known here.
func (r release) fits(t *tree) bool {
	return t.files[rootfsName+r.modulesDir()] == nil || r.kernel == "" || r.suits(t)
}

// suits reports whether the tree has modules for just this release.
func (r release) suits(t *tree) bool {
	return slices.Contains(t.moduleDirs[r.modulesDir()], r.kernel)
}

// checkModuleKernels leaves it at a warning unless it is known what was asked for: a Talos release younger
// than this program may have the kernel.
func checkModuleKernels(s *scope) {
	refusing := s.targetsWhere(func(r release) bool { return !r.fits(s.tree) })
	if len(refusing) == 0 || slices.ContainsFunc(s.targets, func(r release) bool { return r.suits(s.tree) }) {
		return
	}

	severity := Warning
	if s.asked != nil {
		severity = Error
	}

	dir := refusing[len(refusing)-1].modulesDir()
	kernels := s.tree.moduleDirs[dir]

	s.foundAs(severity, rootfsName+dir, "no kernel of the releases known here (%s) is %s", spanOf(refusing), cmp.Or(strings.Join(kernels, " or "), "there"))
}

// brokenFirmware says why the imager would fail on a link among firmware. It goes through each directory in
// the order of names and removes what it has moved.
func (s *scope) brokenFirmware(e *entry) string {
	node, ok := e.node()
	if !ok || !e.isSymlink() || e.dropped != "" || !isFirmware(node) {
		return ""
	}

	if path.IsAbs(e.link) {
		return "the link to " + e.link + " is followed on the machine that builds"
	}

	target := path.Join(path.Dir(node), e.link)

	switch {
	case s.tree.at(target) == nil:
		return "the extension has no " + target
	case isFirmware(target) && slices.Compare(strings.Split(target, "/"), strings.Split(node, "/")) < 0:
		return target + " is moved before the link to it is read"
	default:
		return ""
	}
}

// isFirmware reports whether the imager moves what lies at a path of the node into the initramfs.
func isFirmware(node string) bool {
	return slices.ContainsFunc([]string{"/usr/lib/firmware", "/lib/firmware"}, func(dir string) bool {
		return node == dir || strings.HasPrefix(node, dir+"/")
	})
}
