package lint

import (
	"errors"
	"regexp"
	"strings"
)

var manifestRules = []Rule{
	{
		ID: "manifest-invalid", Severity: Error, Refuses: []Step{StepLoad},
		Effect: "the imager cannot read manifest.yaml and stops (all versions)",
		tree: func(s *scope) {
			if err := s.tree.manifest.err; err != nil && !errors.Is(err, errNoManifest) {
				s.found(manifestName, "%v", err)
			}
		},
	},
	{
		ID: "manifest-unknown-key", Severity: Warning,
		Effect: "Talos passes over keys it does not know and documents after the first: what they say is lost (all versions)",
		tree: func(s *scope) {
			if err := s.tree.manifest.strictErr; err != nil {
				s.found(manifestName, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			}
		},
	},
	{
		ID: "manifest-name", Severity: Error,
		Effect: "the node silently gets no label extensions.talos.dev/NAME when NAME cannot be part of one (all versions)",
		tree: func(s *scope) {
			if m := s.manifest(); m != nil && !isLabelName(m.decoded.Metadata.Name) {
				s.found(manifestName, "the name %q cannot be part of a node label", m.decoded.Metadata.Name)
			}
		},
	},
	{
		ID: "manifest-name-style", Severity: Warning,
		Effect: "names of extensions are lower case letters, digits and dashes: tools that make file names and resources of them expect no others",
		tree: func(s *scope) {
			m := s.manifest()
			if m != nil && isLabelName(m.decoded.Metadata.Name) && !plainName.MatchString(m.decoded.Metadata.Name) {
				s.found(manifestName, "the name %q has more than lower case letters, digits and dashes", m.decoded.Metadata.Name)
			}
		},
	},
	{
		ID: "manifest-version", Severity: Error,
		Effect: "the node silently gets no label extensions.talos.dev/NAME when the version cannot be a label's value (all versions)",
		tree: func(s *scope) {
			if m := s.manifest(); m != nil && !isLabelValue(m.decoded.Metadata.Version) {
				s.found(manifestName, "the version %q cannot be the value of a node label", m.decoded.Metadata.Version)
			}
		},
	},
	{
		ID: "manifest-version-format", Severity: Warning, Refuses: []Step{StepCatalogue},
		Effect: "the official catalogue's validator refuses versions of another form than 1.2.3, v1.2.3-x, 1.2 or a date",
		tree: func(s *scope) {
			m := s.manifest()
			if m == nil || !isLabelValue(m.decoded.Metadata.Version) {
				return
			}

			for _, format := range catalogueVersions {
				if format.MatchString(m.decoded.Metadata.Version) {
					return
				}
			}

			s.found(manifestName, "the version is %q", m.decoded.Metadata.Version)
		},
	},
	{
		ID: "manifest-undescribed", Severity: Note,
		Effect: "`talosctl get extensions` shows users an extension without author or description (all versions)",
		tree: func(s *scope) {
			if m := s.manifest(); m != nil && (m.decoded.Metadata.Author == "" || m.decoded.Metadata.Description == "") {
				s.found(manifestName, "author or description is empty")
			}
		},
	},
	{
		ID: "compatibility-missing", Severity: Warning,
		Effect: "without a range every Talos takes the extension, also one with which a node does not come up (all versions)",
		tree: func(s *scope) {
			if m := s.manifest(); m != nil && m.decoded.Metadata.Compatibility.Talos.Version == "" {
				s.found(manifestName, "metadata.compatibility.talos.version is not set")
			}
		},
	},
	{
		ID: "compatibility-syntax", Severity: Error, Refuses: []Step{StepConstraints},
		Effect: `the imager stops with "error parsing Talos version constraint": a space means and, || means or; ~, ^ and versions of two parts do not work (all versions)`,
		tree: func(s *scope) {
			if m := s.manifest(); m != nil && m.constraintErr != nil {
				s.found(manifestName, "%q: %v", m.decoded.Metadata.Compatibility.Talos.Version, m.constraintErr)
			}
		},
	},
	{
		// The verdicts look at the range themselves, since it differs from release to release.
		ID: ruleCompatibility, Severity: Error,
		Effect: `the imager of a release outside the range stops with "version constraint ... can't be satisfied"`,
		tree: func(s *scope) {
			m := s.manifest()

			switch {
			case m == nil || m.admits == nil:
			case s.asked != nil && !m.admits(coreVersion(*s.asked)):
				s.found(manifestName, "%q does not admit Talos v%s", m.decoded.Metadata.Compatibility.Talos.Version, s.asked)
			case s.asked == nil && len(s.targets) == 0:
				s.found(manifestName, "%q admits no Talos release up to v%s", m.decoded.Metadata.Compatibility.Talos.Version,
					s.facts.releases[len(s.facts.releases)-1].version)
			}
		},
	},
}

const ruleCompatibility = "compatibility"

var (
	plainName  = regexp.MustCompile(`^[a-z0-9-]+$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

	// catalogueVersions are the forms that siderolabs/extensions-validator 84cecb0 takes.
	catalogueVersions = []*regexp.Regexp{
		regexp.MustCompile(`^v?\d+\.\d+(\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)?$`),
		regexp.MustCompile(`^\d{8}(\.\d)?$`),
		regexp.MustCompile(`^(\d+\.\d+\.\d+|[0-9a-f]+)-v\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(-\d+-g[0-9a-f]+(-dirty)?)?$`),
	}
)

// manifest returns the tree's manifest, or nil when it cannot be read.
func (s *scope) manifest() *manifest {
	if s.tree.manifest.err != nil {
		return nil
	}

	return &s.tree.manifest
}

// isLabelName reports whether a name can follow the slash of a label's key; its rules are a value's.
func isLabelName(name string) bool { return labelValue.MatchString(name) }

// isLabelValue leaves out the empty value, which says nothing about a version.
func isLabelValue(value string) bool { return labelValue.MatchString(value) }
