package lint

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/cnibake/cnibake/builder/oci"
)

const schemaVersion = 1

// Options of a run.
type Options struct {
	// Talos is the release to judge for, for example v1.13.9. Without it every known release counts that
	// the extension itself admits.
	Talos string
	// Pull reads what a registry reference names. Nil keeps everything offline.
	Pull func(ctx context.Context, reference string) (oci.Subject, error)
}

// Lint reads an OCI layout, an extension tar, an unpacked directory or a registry reference and holds it
// to every rule. An error means that it could not be read.
func Lint(ctx context.Context, artifact string, o Options) (*Report, error) {
	f, err := loadFacts()
	if err != nil {
		return nil, err
	}

	var asked *semver.Version

	if o.Talos != "" {
		v, err := semver.Parse(strings.TrimPrefix(o.Talos, "v"))
		if err != nil {
			return nil, fmt.Errorf("parsing Talos version %q: %w: give a release such as v1.13.9", o.Talos, err)
		}

		asked = &v
		o.Talos = "v" + v.String()
	}

	work, err := os.MkdirTemp("", "cnibake-lint-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)

	c, err := open(ctx, artifact, work, o.Pull)
	if err != nil {
		return nil, err
	}

	return judge(c, f, asked, o.Talos, work), nil
}

// judge holds what was read to the rules.
func judge(c *contents, f *facts, asked *semver.Version, talos, work string) *Report {
	report := &Report{
		SchemaVersion: schemaVersion, Artifact: c.name, Kind: c.kind, Talos: talos,
		Extensions: []Extension{}, Findings: []Finding{}, Flows: []Verdict{},
	}

	s := &scope{contents: c, facts: f, asked: asked, counts: make(map[countKey]int)}

	for _, t := range c.trees {
		t.manifest = loadManifest(t, work)
		t.learn(f)

		m := t.manifest.decoded.Metadata

		if t.manifest.err == nil {
			report.Extensions = append(report.Extensions, Extension{
				Name: m.Name, Version: m.Version, Arch: t.arch, Compatibility: m.Compatibility.Talos.Version,
			})
		}
	}

	for _, family := range Families() {
		for i := range family.Rules {
			s.rule = &family.Rules[i]

			if s.rule.artifact != nil {
				s.tree, s.targets = nil, nil
				s.rule.artifact(s)
			}

			for _, t := range c.trees {
				if s.rule.tree != nil {
					s.tree, s.targets = t, f.targets(asked, t.manifest)
					s.rule.tree(s)
				}
			}

			s.reportProblems()
		}
	}

	report.Findings = s.sorted()
	report.Flows = s.verdicts()

	return report
}

// targets are the releases a tree is judged for: the one asked for, or all known ones it admits.
func (f *facts) targets(asked *semver.Version, m manifest) []release {
	if asked != nil {
		return []release{f.lookup(*asked)}
	}

	// Without a readable range nothing is known of what the extension is for.
	if m.err != nil || m.constraintErr != nil {
		return nil
	}

	var admitted []release

	for _, r := range f.releases {
		if m.admits == nil || m.admits(coreVersion(r.version)) {
			admitted = append(admitted, r)
		}
	}

	return admitted
}

// scope is what a rule sees and where it reports.
type scope struct {
	contents *contents
	facts    *facts
	asked    *semver.Version

	rule *Rule
	// tree and targets are set for rules that look at trees.
	tree    *tree
	targets []release

	findings []found
	counts   map[countKey]int
}

type countKey struct {
	rule string
	tree *tree
}

// found is a finding with what the verdicts need of its rule.
type found struct {
	Finding
	rule *Rule
}

// mostOfOneRule is how many findings of a rule are listed for a tree; one more says how many there are.
const mostOfOneRule = 20

// found reports a finding with the rule's own severity.
func (s *scope) found(path, format string, args ...any) {
	s.foundAs(s.rule.Severity, path, format, args...)
}

func (s *scope) foundAs(severity Severity, path, format string, args ...any) {
	key := countKey{s.rule.ID, s.tree}
	if s.counts[key]++; s.counts[key] > mostOfOneRule {
		return
	}

	arch := ""
	if s.tree != nil {
		arch = s.tree.arch
	}

	s.add(severity, path, arch, fmt.Sprintf(format, args...))
}

func (s *scope) add(severity Severity, path, arch, message string) {
	s.findings = append(s.findings, found{
		Finding: Finding{
			Rule: s.rule.ID, Severity: severity, Path: printable(path), Arch: printable(arch),
			Message: printable(message), Effect: s.rule.Effect,
		},
		rule: s.rule,
	})
}

// reportProblems reports what the readers ran into and belongs to the rule.
func (s *scope) reportProblems() {
	for _, p := range s.contents.problems {
		if p.rule == s.rule.ID {
			s.add(s.rule.Severity, p.path, p.arch, p.message)
		}
	}

	for key, n := range s.counts {
		if key.rule == s.rule.ID && n > mostOfOneRule {
			arch := ""
			if key.tree != nil {
				arch = key.tree.arch
			}

			s.add(s.rule.Severity, "", arch, fmt.Sprintf("and %d more like these", n-mostOfOneRule))
		}
	}
}

// sorted returns the findings, the worst first.
func (s *scope) sorted() []Finding {
	order := map[Severity]int{Error: 0, Warning: 1, Note: 2}

	findings := make([]Finding, len(s.findings))
	for i, f := range s.findings {
		findings[i] = f.Finding
	}

	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Severity], order[b.Severity]), cmp.Compare(a.Arch, b.Arch))
	})

	return findings
}

// printable keeps what an untrusted artifact says from steering a terminal or filling a log.
func printable(text string) string {
	const longest = 512

	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}

	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}

		return r
	}, text)
}

// targetsWhere returns the targets for which the condition holds.
func (s *scope) targetsWhere(condition func(release) bool) []release {
	var where []release

	for _, r := range s.targets {
		if condition(r) {
			where = append(where, r)
		}
	}

	return where
}

// spanOf names releases by the first and the last.
func spanOf(releases []release) string {
	first, last := releases[0].version, releases[len(releases)-1].version
	if first.EQ(last) {
		return "v" + first.String()
	}

	return fmt.Sprintf("v%s to v%s", first, last)
}
