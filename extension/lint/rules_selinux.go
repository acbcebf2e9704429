package lint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

var selinuxRules = []Rule{
	{
		ID: "selinux-missing", Severity: Warning,
		Effect: "a node that enforces SELinux (from 1.10 on) may not let services use unlabelled files, nor the runtime start unlabelled plugins; without enforcement nothing happens",
		tree:   checkUnlabelled,
	},
	{
		ID: "selinux-malformed", Severity: Error,
		Effect: "the kernel does not know the label and treats the file as unlabelled: in enforcing mode it cannot be used (from 1.10 on)",
		tree: func(s *scope) {
			for _, e := range s.labelled() {
				if typ, ok := labelType(e.label); !ok {
					s.found(e.name, "%q is not of the form system_u:object_r:TYPE:s0", e.label)
				} else if !s.facts.labelTypes[typ] {
					s.found(e.name, "Talos's policy has no type %q", typ)
				}
			}
		},
	},
	{
		ID: "selinux-wrong", Severity: Error,
		Effect: "with another type than Talos gives the path, services in enforcing mode lose what they may use there or the runtime may not start the plugins (from 1.10 on)",
		tree:   checkLabels,
	},
	{
		ID: "selinux-unusual", Severity: Warning,
		Effect: "below /usr/local Talos's policy gives one type to everything: another one is a choice that should be meant (from 1.10 on)",
		tree: func(s *scope) {
			for _, l := range s.mislabelled() {
				if l.chosen {
					s.found(l.entry.name, "the type is %s, Talos's would be %s", l.have, l.want)
				}
			}
		},
	},
	{
		ID: "selinux-record", Severity: Warning,
		Effect: "Talos reads labels from the PAX record SCHILY.xattr.security.selinux only: this one is lost (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.strayLabel && e.label == "" {
					s.found(e.name, "the label lies in a record that Talos does not read")
				}
			}
		},
	},
	{
		ID: "selinux-too-many", Severity: Error, Refuses: []Step{StepSquash},
		Effect: `from 1.13 on the imager gives mksquashfs every label on its command line, which holds 2 MiB: it stops with "argument list too long"`,
		tree: func(s *scope) {
			// The length of the options around each label, and of the pointers to them.
			const around, most = 60, 2 << 20

			length := 0
			for _, e := range s.labelled() {
				length += len(e.path) + len(e.label) + around
			}

			if length > most {
				s.found("", "%d labels make %d bytes of options", len(s.labelled()), length)
			}
		},
	},
	{
		ID: "selinux-imager-1.12", Severity: Warning,
		Effect: `imagers of 1.12 set the label on the file system of the machine that builds: without the privilege (rootless) they stop with "error setting selinux xattr"`,
		tree: func(s *scope) {
			in112 := s.targetsWhere(func(r release) bool { return lineOf(r.version) == line{1, 12} })
			if labelled := s.labelled(); len(labelled) > 0 && len(in112) > 0 {
				s.found(labelled[0].name, "%s, and the extension is for %s too", countOf(len(labelled), "labelled entry", "labelled entries"), spanOf(in112))
			}
		},
	},
}

func (s *scope) labelled() []*entry {
	var labelled []*entry

	for _, e := range s.tree.entries {
		if _, ok := e.node(); ok && e.label != "" && e.dropped == "" {
			labelled = append(labelled, e)
		}
	}

	return labelled
}

func checkUnlabelled(s *scope) {
	var first string

	n := 0

	for _, e := range s.tree.entries {
		node, ok := e.node()
		// Firmware is moved out of the extension's file system, into the initramfs.
		if !ok || e.label != "" || e.strayLabel || e.dropped != "" || isFirmware(node) {
			continue
		}

		if n++; first == "" {
			first = e.name
		}
	}

	if n > 0 {
		s.found(first, "%s without a label", countOf(n, "entry", "entries"))
	}
}

var labelForm = regexp.MustCompile(`^system_u:object_r:([a-z0-9_]+):s0$`)

func labelType(label string) (string, bool) {
	m := labelForm.FindStringSubmatch(label)
	if m == nil {
		return "", false
	}

	return m[1], true
}

type mislabel struct {
	entry      *entry
	have, want string
	// chosen is set below /usr/local, where the policy leaves room for a choice.
	chosen bool
}

func checkLabels(s *scope) {
	for _, l := range s.mislabelled() {
		if !l.chosen {
			s.found(l.entry.name, "the type is %s, Talos's is %s", l.have, l.want)
		}
	}
}

// mislabelled returns well-formed labels whose type is not the one of the path.
func (s *scope) mislabelled() []mislabel {
	const (
		freePrefix = "/usr/local/"
		pluginType = "cni_plugin_t"
	)

	var wrong []mislabel

	for _, e := range s.labelled() {
		have, ok := labelType(e.label)
		if !ok || !s.facts.labelTypes[have] {
			continue
		}

		node, _ := e.node()
		want := s.facts.labelOf(node)

		// The runtime may start plugins of this type only, wherever it is told to look for them.
		inPlugins := slices.ContainsFunc(s.tree.pluginDirs, func(dir string) bool { return node == dir || strings.HasPrefix(node, path.Clean(dir)+"/") })
		if inPlugins {
			want = pluginType
		}

		if have != want {
			wrong = append(wrong, mislabel{e, have, want, strings.HasPrefix(node, freePrefix) && !inPlugins})
		}
	}

	return wrong
}

// labelOf returns the type Talos's policy gives to a path: that of an exact rule, else of the longest
// pattern that matches.
func (f *facts) labelOf(node string) string {
	best := labelPath{typ: ""}

	for _, l := range f.labelPaths {
		if !l.pattern.MatchString(node) {
			continue
		}

		if l.exact && !best.exact || l.exact == best.exact && l.length > best.length {
			best = l
		}
	}

	return cmp.Or(best.typ, "rootfs_t")
}
