package doctor

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// Step is something to do. The commands are for a shell on the node, or in this program's container.
type Step struct {
	Do       string   `json:"do"`
	Commands []string `json:"commands,omitempty"`
	// Verdicts are those that it cures.
	Verdicts []Verdict `json:"verdicts"`

	// stage is the directory, and names the plugins, where the step is staging: all that are staged
	// there are one step. takeOver and replace say that something of that name is there, maybe the
	// distribution's.
	stage             string
	names             []string
	takeOver, replace bool
}

// todo makes a step.
func todo(format string, args ...any) *Step {
	return &Step{Do: say(format, args...)}
}

// run adds a command to a step.
func (s *Step) run(words ...string) *Step {
	s.Commands = append(s.Commands, command(words...))

	return s
}

// is reports whether two steps are one.
func (s *Step) is(other *Step) bool {
	return s.stage == other.stage && s.Do == other.Do && slices.Equal(s.Commands, other.Commands)
}

// advise adds a step, or joins it with the one that is the same.
func (d *doctor) advise(v Verdict, s *Step) {
	for _, other := range d.steps {
		if other.is(s) {
			other.join(v, s)

			return
		}
	}

	s.Verdicts = []Verdict{v}
	d.steps = append(d.steps, s)
}

func (s *Step) join(v Verdict, other *Step) {
	if !slices.Contains(s.Verdicts, v) {
		s.Verdicts = append(s.Verdicts, v)
	}

	for _, name := range other.names {
		if !slices.Contains(s.names, name) {
			s.names = append(s.names, name)
		}
	}

	s.takeOver = s.takeOver || other.takeOver
	s.replace = s.replace || other.replace
}

// report adds a finding, and what to do about it.
func (d *doctor) report(to *[]Finding, v Verdict, s *Step, format string, args ...any) {
	d.advise(v, s)
	*to = append(*to, Finding{v, v.isWarning(), say(format, args...)})
}

// correct reports a text that has to be corrected.
func (d *doctor) correct(to *[]Finding, v Verdict, where, what string) {
	d.report(to, v, todo("Correct %s: %s.", where, what), "%s: %s", where, what)
}

// advice returns what to do, most basic first.
func (d *doctor) advice() []Step {
	var sorted []Step

	for _, r := range rules {
		for _, s := range d.steps {
			if s.Verdicts == nil || !slices.Contains(s.Verdicts, r.Verdict) {
				continue
			}

			if s.stage != "" {
				d.describeStaging(s)
			}

			sorted = append(sorted, *s)
			s.Verdicts = nil // it has its place
		}
	}

	return sorted
}

// describeStaging writes the command that stages plugins into a directory of the node.
func (d *doctor) describeStaging(s *Step) {
	slices.Sort(s.names)

	distro, names := "", strings.Join(s.names, ",")
	if d.Distro.Name != "" {
		distro = " --distro " + d.Distro.Name
	}

	s.Do = say("Stage %s into %s; on every node of a cluster: cnibake manifest daemonset%s.", names, s.stage, distro)

	if d.Distro.Name == "talos" {
		s.Do = say("Bake %s into the node image: cnibake build talos. To stage them until then hides the baked ones later, until \"install-cni-plugins unshadow\" is run.", names)
	}

	if len(d.payload.Plugins) == 0 {
		s.Do += say(" There are no plugins in %s here: run this in the init-container image, which has them.", d.Source)
	}

	words := []string{"install-cni-plugins", "install", "--source", d.Source, "--dest", d.real(s.stage), "--only", names, "--strict"}

	if _, err := d.node.resolve(s.stage); err != nil {
		words = append(words, "--create")
	}

	if s.replace {
		words = append(words, "--update", "always")
	}

	if s.takeOver {
		words = append(words, "--take-over")
	}

	s.run(words...)
}

// real returns where this program reaches a directory of the node, be it there or not.
func (d *doctor) real(dir string) string {
	if f, err := d.node.resolve(dir); err == nil {
		return f.real
	}

	return filepath.Join(d.Root, dir)
}

// realEntry returns where this program reaches a name in a directory of the node; a symlink of that
// name is not followed.
func (d *doctor) realEntry(path string) string {
	return filepath.Join(d.real(filepath.Dir(path)), filepath.Base(path))
}

// inShell returns where a person's shell reaches what this program reaches at a path.
func (d *doctor) inShell(real string) string {
	rest, _ := below(real, d.Root)

	return filepath.Join(cmp.Or(d.ShellRoot, d.Root), rest)
}
