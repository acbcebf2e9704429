package lint

import (
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
)

// verdicts says for each flow whether it takes the artifact: for every release line of the table, or for
// the release asked for.
func (s *scope) verdicts() []Verdict {
	verdicts := []Verdict{}

	for _, f := range s.facts.flows {
		if f.Together {
			if v, ok := s.verdict(f, f.From, f.To); ok {
				verdicts = append(verdicts, v)
			}

			continue
		}

		for l := f.From; !f.To.before(l); l.minor++ {
			if v, ok := s.verdict(f, l, l); ok {
				verdicts = append(verdicts, v)
			}
		}
	}

	return verdicts
}

// verdict judges for some release lines; false when they are not what was asked for.
func (s *scope) verdict(f flow, from, to line) (Verdict, bool) {
	releases := s.facts.within(from, to)
	v := Verdict{Flow: f.Flow, Talos: from.String()}

	if from != to {
		v.Talos = from.String() + " to " + to.String()
	}

	switch {
	// The catalogue's check knows one release, whatever the extension is meant for.
	case f.Release != "":
		releases = []release{s.facts.lookup(semver.MustParse(f.Release[1:]))}
		v.Talos = f.Release
	case s.asked != nil:
		if l := s.facts.clamp(lineOf(*s.asked)); l.before(from) || to.before(l) {
			return v, false
		}

		releases = []release{s.facts.lookup(*s.asked)}
		v.Talos = "v" + s.asked.String()
	}

	v.Reasons = s.reasons(f, releases)
	v.Accepted = len(v.Reasons) == 0

	return v, true
}

// reasons returns why a flow refuses the artifact for the releases: all of them, or at least the newest.
func (s *scope) reasons(f flow, releases []release) []Reason {
	reasons := []Reason{}
	seen := make(map[string]bool)

	for _, finding := range s.findings {
		refuses := slices.ContainsFunc(finding.rule.Refuses, func(step Step) bool {
			// What is an error to the catalogue may be no more than a warning to everyone else.
			counts := finding.Severity == Error || step == StepCatalogue

			return counts && slices.Contains(f.Steps, step) && s.concerns(step)
		})

		if !refuses || finding.rule.tarOnly && len(s.contents.images) > 0 || seen[finding.Rule+finding.Arch] {
			continue
		}

		seen[finding.Rule+finding.Arch] = true

		reasons = append(reasons, Reason{Rule: finding.Rule, Path: finding.Path, Arch: finding.Arch, Message: finding.Message})
	}

	newest := releases[len(releases)-1]

	for _, t := range s.contents.trees {
		m := t.manifest

		if slices.Contains(f.Steps, StepConstraints) && m.err == nil && m.admits != nil && !admitsAny(m, releases) {
			reasons = append(reasons, Reason{
				Rule: ruleCompatibility, Path: manifestName, Arch: t.arch,
				Message: fmt.Sprintf("the range %s does not admit it", printable(m.decoded.Metadata.Compatibility.Talos.Version)),
			})
		}

		fits := func(r release) bool { return r.fits(t) }
		if slices.Contains(f.Steps, StepSquash) && !slices.ContainsFunc(releases, fits) {
			reasons = append(reasons, Reason{
				Rule: ruleModulesKernel, Path: printable(rootfsName + newest.modulesDir()), Arch: t.arch,
				Message: "the modules are for another kernel",
			})
		}

		if slices.Contains(f.Steps, StepContents) {
			if refused := s.facts.refused(t, lineOf(newest.version)); len(refused) > 0 {
				reasons = append(reasons, Reason{
					Rule: rulePathNotAllowed, Path: printable(rootfsName + refused[0]), Arch: t.arch,
					Message: countOf(len(refused), "path lies", "paths lie") + " outside the list of allowed ones",
				})
			}
		}
	}

	return reasons
}

func admitsAny(m manifest, releases []release) bool {
	return slices.ContainsFunc(releases, func(r release) bool { return m.admits(coreVersion(r.version)) })
}

// concerns reports whether a step is one for this kind of artifact. A tar is judged as it is for
// tarballPath, and for flows that take images as the layer it would become.
func (s *scope) concerns(step Step) bool {
	switch step {
	case StepTarball:
		return s.contents.kind == KindTar || s.contents.kind == KindArchive
	case StepOCIPath:
		return s.contents.kind == KindLayout
	default:
		return true
	}
}
