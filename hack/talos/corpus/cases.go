package corpus

import (
	"archive/tar"
	"path"
	"strings"
)

// Case is one broken extension, or one that looks odd and is good.
type Case struct {
	Name   string
	Change change
	// Older, Middle and Newer are what Talos 1.12, 1.13 and 1.14 make of it.
	Older, Middle, Newer Outcome
	// Harm is what a node would suffer where an image comes out that looks right in itself.
	Harm string
	// Stricter is set where lint has a reason to object although every imager here accepts.
	Stricter bool
}

// Names in the good archive.
const (
	pluginDir = "rootfs/usr/local/lib/cni/"
	plugin    = pluginDir + "static"
	part      = "rootfs/etc/cri/conf.d/20-cni-plugins.part"
	sbom      = "rootfs/usr/local/share/spdx/cni-plugins-readonly.spdx.json"
	usr       = "rootfs/usr/"
	local     = "rootfs/usr/local/"
	lib       = "rootfs/usr/local/lib/"
)

// foreign are programs that do not belong into an amd64 extension without an interpreter.
type foreign struct {
	// arm64 is a plugin for another machine, dynamic one that needs a dynamic linker.
	arm64, dynamic []byte
}

// tarCases change a good plain tar.
func tarCases(f foreign) []Case {
	var cases []Case

	for _, family := range [][]Case{directoryCases(), entryCases(), nameCases(), modeCases(), programCases(f), manifestCases(), labelCases(), contentCases()} {
		cases = append(cases, family...)
	}

	return cases
}

func same(name string, outcome Outcome, c change) Case {
	return Case{Name: name, Change: c, Older: outcome, Middle: outcome, Newer: outcome}
}

// harmful is accepted everywhere and hurts a node.
func harmful(name, harm string, c change) Case {
	return Case{Name: name, Change: c, Older: Ruin, Middle: Ruin, Newer: Ruin, Harm: harm}
}

func directoryCases() []Case {
	return []Case{
		same("good", Accept, func(a Archive) Archive { return a }),
		// 1.14 makes what is missing before a directory with that directory's mode, before a file with 0700.
		{Name: "parent of a directory missing", Change: without(lib), Older: Reject, Middle: Reject, Newer: Accept},
		{Name: "parent of a file missing", Change: without(path.Dir(part) + "/"), Older: Reject, Middle: Reject, Newer: Ruin},
		{Name: "parents all missing", Change: func(a Archive) Archive {
			return without(pluginDir)(without(lib)(without(local)(without(usr)(a))))
		}, Older: Reject, Middle: Reject, Newer: Ruin},
		{Name: "rootfs entry missing", Change: without("rootfs/"), Older: Reject, Middle: Reject, Newer: Accept},
		{Name: "parent after what it holds", Change: last(lib), Older: Reject, Middle: Reject, Newer: Accept},
		same("parent 0700", Ruin, mode(usr, 0o700)),
		same("rootfs 0700", Ruin, mode("rootfs/", 0o700)),
		same("rootfs 0750", Ruin, mode("rootfs/", 0o750)),
		same("the extension's own directory 0711", Accept, mode(pluginDir, 0o711)),
		same("parent writable for all", Ruin, mode(local, 0o777)),
		same("directory twice", Accept, again(usr)).stricter(),
		same("directory twice, tight at last", Ruin, both(again(usr), func(a Archive) Archive {
			a[len(a)-1].Mode = 0o700

			return a
		})),
	}
}

func entryCases() []Case {
	return []Case{
		same("hardlink", Ruin, kind(plugin, tar.TypeLink, pluginDir+".cni-plugins.json")),
		same("hardlink to nothing", Ruin, kind(plugin, tar.TypeLink, "nowhere")),
		same("fifo", Ruin, kind(plugin, tar.TypeFifo, "")),
		same("character device", Ruin, device(plugin)),
		same("block device", Ruin, kind(plugin, tar.TypeBlock, "")),
		same("file twice", Reject, again(plugin)),
		same("manifest twice", Reject, again("manifest.yaml")),
		same("symlink twice", Reject, with(symlink(lib+"link", "cni"), symlink(lib+"link", "cni"))),
		same("file over a directory", Reject, with(file(strings.TrimSuffix(pluginDir, "/"), "x"))),
		same("directory over a file", Ruin, with(directory(plugin, 0o755))),
		same("symlink over a directory", Reject, with(symlink(strings.TrimSuffix(pluginDir, "/"), "/opt/cni/bin"))),
		same("file below a file", Reject, with(file(plugin+"/x", "x"))),
		same("whiteout", Ruin, with(file(pluginDir+".wh.bridge", "\n"))),
		same("opaque whiteout", Ruin, with(file(pluginDir+".wh..wh..opq", "\n"))),
		same("symlink", Accept, with(symlink(lib+"link", "cni"))),
		harmful("file through a symlink", "it is written to wherever the link leads",
			with(symlink(lib+"link", "cni"), file(lib+"link/x", "x"))),
	}
}

func nameCases() []Case {
	return []Case{
		same("names with ./", Accept, renamed(func(name string) string { return "./" + name })),
		same("entry .", Accept, first(directory(".", 0o755))),
		{Name: "entry /", Change: first(directory("/", 0o755)), Older: Accept, Middle: Accept, Newer: Reject},
		{Name: "entry / 0700", Change: first(directory("/", 0o700)), Older: Accept, Middle: Accept, Newer: Reject},
		same("absolute names", Accept, renamed(func(name string) string { return "/" + name })),
		same(".. to the top", Reject, with(file("rootfs/../evil", "x"))),
		same(".. above the top", Reject, with(file("../../evil", "x"))),
		same(".. within rootfs", Ruin, with(file(lib+"../share/x", "x"))),
		same("README beside manifest.yaml", Reject, with(file("README.md", "x"))),
		same("directory beside rootfs", Reject, with(directory("extra", 0o755))),
		same("rootfs in a folder", Reject, renamed(func(name string) string { return "cni-plugins/" + name })),
		same("rootfs content at the top", Reject, renamed(func(name string) string { return strings.TrimPrefix(name, "rootfs/") })),
	}
}

func modeCases() []Case {
	return []Case{
		same("world-writable file", Ruin, mode(plugin, 0o777)),
		same("world-writable manifest of plugins", Ruin, mode(pluginDir+".cni-plugins.json", 0o666)),
		same("setuid", Ruin, mode(plugin, 0o4755)),
		same("setgid", Ruin, mode(plugin, 0o2755)),
		harmful("not executable", "the runtime cannot start the plugin", mode(plugin, 0o644)),
	}
}

func programCases(f foreign) []Case {
	return []Case{
		same("empty plugin", Ruin, body(plugin, "")),
		harmful("a plugin for another machine", "exec format error", with(Entry{
			Header: tar.Header{Typeflag: tar.TypeReg, Name: pluginDir + "other", Mode: 0o755}, Body: f.arm64,
		})),
		harmful("dynamically linked plugin", "there is no such interpreter on a node", edit(plugin, func(e *Entry) { e.Body = f.dynamic })),
		harmful("plugin cut short", "it crashes or does not start", edit(plugin, func(e *Entry) { e.Body = e.Body[:len(e.Body)/2] })),
	}
}

func manifestCases() []Case {
	return []Case{
		same("no manifest", Reject, without("manifest.yaml")),
		same("empty manifest", Reject, body("manifest.yaml", "")),
		same("manifest is a list", Reject, body("manifest.yaml", "- version: v1alpha1\n")),
		same("manifest is not YAML", Reject, body("manifest.yaml", "version: [v1alpha1\n")),
		same("manifest of another version", Reject, manifest("v1alpha1", "v1alpha2")),
		same("manifest is a directory", Reject, both(without("manifest.yaml"), with(directory("manifest.yaml", 0o755)))),
		same("no version", Reject, manifest("version: v1alpha1\n", "")),
		same("no rootfs", Reject, withoutBelow("rootfs/")),
		harmful("rootfs is a file", "the squashfs holds one file and is no root file system", both(withoutBelow("rootfs/"), with(file("rootfs", "x")))),
		harmful("no name", "the node label extensions.talos.dev/ cannot be set", manifest("name: cni-plugins-readonly", `name: ""`)),
		harmful("name with a space", "the node label cannot be set", manifest("name: cni-plugins-readonly", "name: cni plugins")),
		harmful("name with capitals", "the node label cannot be set", manifest("name: cni-plugins-readonly", "name: CNI/Plugins")),
		harmful("version with a space", "the node label's value cannot be set", manifest("version: v1.9.1-1", "version: 1.9.1 (one)")),
		same("constraint with ~", Reject, constraint("~1.13.0")),
		same("constraint with ^", Reject, constraint("^1.13.0")),
		same("constraint of two parts", Reject, constraint(">= 1.13")),
		same("constraint with a comma", Reject, constraint(">= v1.11.0, < v2.0.0")),
		same("constraint of words", Reject, constraint("latest")),
		same("constraint for later releases", Reject, constraint(">= v1.99.0")),
		same("constraint for earlier releases", Reject, constraint("< v1.11.0")),
		same("constraint with ||", Accept, constraint("< v1.0.0 || >= v1.11.0")),
	}
}

func labelCases() []Case {
	return []Case{
		same("no labels", Accept, unlabelled),
		harmful("plugins labelled usr_t", "the runtime may not execute them in enforcing mode", label(plugin, "system_u:object_r:usr_t:s0")),
		harmful("root labelled usr_t", "the node's / has the wrong label", label("rootfs/", "system_u:object_r:usr_t:s0")),
		harmful("label of no known type", "the file is unlabeled_t in enforcing mode", label(plugin, "system_u:object_r:plugin_t:s0")),
		harmful("label without a type", "the file is unlabeled_t in enforcing mode", label(plugin, "cni")),
	}
}

func contentCases() []Case {
	return []Case{
		harmful("part is not TOML", "containerd does not start", body(part, "[plugins\n")),
		harmful("SBOM is not JSON", "the node logs an error and lists nothing", body(sbom, "{")),
	}
}

// stricter says that lint objects to what every imager takes.
func (c Case) stricter() Case {
	c.Stricter = true

	return c
}
