package doctor

import (
	"context"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/profiles/distro"
)

// maxKept bounds how many answers are kept: more names than that are none of real plugins.
const maxKept = 1000

// question is a plugin that is looked for in directories, which are written one after another.
type question struct {
	name, dirs string
	view       *view
}

// answer is what was found, whatever the configuration that asks.
type answer struct {
	// path is within the view, and target what it leads to on the node; empty where that is nothing.
	path, target string
	program      *program
	findings     []Finding
}

// plugin examines one plugin that a configuration calls.
func (d *doctor) plugin(ctx context.Context, where string, c *call, v *view, dirs []string) Plugin {
	out := Plugin{Type: safe(c.name), Role: c.role, Findings: []Finding{}}

	if !findable(c.name) {
		d.correct(&out.Findings, BadConfig, where, "\""+c.name+"\" is not the name of a plugin")

		return out
	}

	q := question{c.name, strings.Join(dirs, ":"), v}

	a := d.answers[q]
	if a == nil {
		a = d.lookUp(ctx, c.name, dirs, v)

		if len(d.answers) < maxKept {
			d.answers[q] = a
		}
	}

	out.Findings = append(out.Findings, a.findings...)

	if a.program == nil {
		return out
	}

	out.Path, out.Version = safe(a.path), safe(a.program.version)
	if a.target != a.path {
		out.Path += " -> " + safe(a.target)
	}

	if len(a.program.faults) == 0 {
		d.examineVersion(&out.Findings, where, c, a.program, a.path)
	}

	if c.role != "ipam" {
		d.examineKernel(&out.Findings, c)
	} else if c.name == "dhcp" {
		d.examineDHCP(&out.Findings, c)
	}

	return out
}

// lookUp finds a plugin and examines what is found.
func (d *doctor) lookUp(ctx context.Context, name string, dirs []string, v *view) *answer {
	a := &answer{}

	tried, found := v.find(name, dirs)
	if found < 0 {
		d.notFound(&a.findings, name, dirs, tried, v)

		return a
	}

	// Where Multus found it, it calls the same path after a chroot to the node's root.
	a.path = tried[found].path

	onNode, err := d.node.resolve(a.path)

	switch {
	case err != nil && d.oneSided(&a.findings, filepath.Dir(a.path), v):
		return a
	case err != nil || !onNode.isRegular():
		d.report(&a.findings, EscapingSymlink, d.bring(name, filepath.Dir(a.path), true),
			"%s resolves in %s, but not on %s, where it is run", a.path, multusName, nodeName)

		return a
	}

	a.target = onNode.path
	a.program = d.inspect(ctx, onNode, name)

	for _, f := range a.program.faults {
		d.report(&a.findings, f.verdict, d.repair(f.verdict, name, a.path, onNode), "%s %s", a.path, f.text)
	}

	if len(a.program.faults) == 0 {
		d.examineHidden(&a.findings, name, tried[found:])
	}

	return a
}

// notFound says why a name resolves to no plugin.
func (d *doctor) notFound(to *[]Finding, name string, dirs []string, tried []search, v *view) {
	for _, s := range tried {
		dir := filepath.Dir(s.path)
		onNode, err := d.node.resolve(s.path)

		switch {
		case err == nil && onNode.isRegular(): // so it is Multus that does not see it
			d.hidden(to, s.path, dir, onNode, v)

			return
		case err != nil && d.isSymlink(s.path):
			d.report(to, DanglingSymlink, d.bring(name, dir, true), "%s is a symlink to %s: %s%s", s.path, onNode.path, reason(err), d.asFarAsSeen())

			return
		case err == nil:
			remove := "rm"
			if onNode.isDir() && !d.isSymlink(s.path) {
				remove = "rmdir" // what it holds, if anything, is for a person to judge
			}

			d.advise(NotAFile, todo("Remove %s, which is %s.", s.path, onNode.kind()).run(remove, d.inShell(d.realEntry(s.path))))
			d.report(to, NotAFile, d.bring(name, dir, false), "%s is %s, not a plugin", s.path, onNode.kind())

			return
		}
	}

	// Staging makes the directory; what else is missing shows when it is there.
	if s := d.noBinDir(dirs); s != nil {
		if d.brings(name) {
			d.advise(BinDirMissing, d.bring(name, dirs[0], false))
		}

		d.report(to, BinDirMissing, s, "%s is not to be found: none of [%s] is there", name, strings.Join(dirs, " "))

		return
	}

	shown, out := strings.Join(dirs, " "), leftOut[name]

	switch elsewhere := d.elsewhere(name); {
	case elsewhere != "":
		d.advise(WrongDirectory, todo("Where the runtime does search %s, name it with --bin-dir. Else add it to containerd's bin_dirs and to CNI_PATH in Multus's environment, or stage the plugin.", elsewhere))
		d.report(to, WrongDirectory, d.bring(name, d.destination(dirs), false), "%s is in %s, but only [%s] is searched", name, elsewhere, shown)
	case d.brings(name):
		d.report(to, Missing, d.bring(name, d.destination(dirs), false), "%s is not in [%s]; our plugin set brings it", name, shown)
	case out.why != "":
		d.report(to, NotCarried, todo("For %s: %s.", name, out.instead), "%s is not in [%s]; our plugin set leaves it out: %s", name, shown, out.why)
	case ownerOf(name) != "":
		d.report(to, ThirdParty, d.bring(name, "", false), "%s is not in [%s]; it is part of %s, not of the reference plugins", name, shown, ownerOf(name))
	default:
		d.report(to, ThirdParty, d.bring(name, "", false), "%s is not in [%s]; it is no reference plugin", name, shown)
	}
}

// elsewhere returns a directory in which some distribution or packager has plugins and which has this
// one; empty where there is none.
func (d *doctor) elsewhere(name string) string {
	dirs := []string{"/usr/local/lib/cni", "/usr/lib/cni", "/usr/libexec/cni"}
	for _, known := range distro.All() {
		dirs = append(append(dirs, known.BinDir), known.FormerBinDirs...)
	}

	tried, found := d.node.find(name, dirs)
	if found < 0 {
		return ""
	}

	return filepath.Dir(tried[found].path)
}

// hidden reports what the node has and Multus's container lacks.
func (d *doctor) hidden(to *[]Finding, path, dir string, onNode *file, v *view) {
	if d.oneSided(to, dir, v) {
		return
	}

	d.report(to, EscapingSymlink, todo("Mount %s of the node into %s at the same path, so that %s resolves there too.", commonParent(path, onNode.path), multusName, path),
		"%s resolves on %s, to %s, but not in %s, which looks first", path, nodeName, onNode.path, multusName)
}

// commonParent returns the directory that both paths lie below; for k3s it is the parent of the
// directory with the symlinks.
func commonParent(a, b string) string {
	for {
		a = filepath.Dir(a)
		if _, ok := below(b, a); ok {
			return a
		}
	}
}

// bring is how a plugin gets into a directory: we stage those that we have.
func (d *doctor) bring(name, dir string, replace bool) *Step {
	switch {
	case d.brings(name):
		return &Step{stage: dir, names: []string{name}, replace: replace, takeOver: replace && d.Distro.Owns(name)}
	case leftOut[name].why != "":
		return todo("Install %s anew: it is a reference plugin that our set leaves out.", name)
	case ownerOf(name) != "":
		return todo("Install %s anew: the plugin %s is part of it.", ownerOf(name), name)
	default:
		return todo("Install what brings %s, or correct the \"type\".", name)
	}
}

// repair is how a plugin's file is put right.
func (d *doctor) repair(v Verdict, name, path string, f *file) *Step {
	dir := filepath.Dir(path)

	switch {
	case v == NotExecutable && !d.isOurs(name, search{path: path, file: f}):
		return todo("Make %s executable.", path).run("chmod", "0755", d.inShell(f.real))
	case v == NoExec:
		better := "the directory that the container runtime's configuration names"
		if d.Distro.Name != "" && d.Distro.BinDir != dir {
			better = d.Distro.BinDir + ", where " + d.Distro.Name + " has them"
		}

		s := todo("Remount the file system of %s with exec, or stage into %s.", dir, better)
		s.Commands = []string{"mount -o remount,exec \"$(" + command("findmnt", "-n", "-o", "TARGET", "-T", d.inShell(d.real(dir))) + ")\""}

		return s
	default:
		return d.bring(name, dir, true)
	}
}

// destination is the directory to stage into: the first that is there and may be written.
func (d *doctor) destination(dirs []string) string {
	for _, dir := range dirs {
		f, err := d.node.resolve(dir)
		if err == nil && f.isDir() && mountFlags(f.real)&unix.ST_RDONLY == 0 {
			return dir
		}
	}

	return dirs[0]
}

func (d *doctor) isSymlink(path string) bool {
	var st unix.Stat_t

	return unix.Lstat(d.realEntry(path), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}
