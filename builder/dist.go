package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/sums"
)

// Dist is the output directory of a build that was published.
type Dist struct {
	Dir    string
	Report Report
}

// IsDist reports whether a directory is a build's output.
func IsDist(dir string) bool {
	for _, name := range []string{ReportName, SumsName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}

	return true
}

// OpenDist reads what a build says it has written.
func OpenDist(dir string) (*Dist, error) {
	report, err := readReport(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", dir, err)
	}

	return &Dist{dir, report}, nil
}

// Layouts are the names of the layouts in it.
func (d *Dist) Layouts() []string {
	return d.names(func(a Artifact) bool { return a.Kind == KindOCILayout })
}

// Archives are the names of the files in it that hold plugins.
func (d *Dist) Archives() []string {
	return d.names(func(a Artifact) bool {
		return a.Kind == KindArchive || a.Kind == KindExtensionTar || a.Kind == KindOCIArchive
	})
}

func (d *Dist) names(is func(Artifact) bool) []string {
	var names []string

	for _, artifact := range d.Report.artifacts() {
		if is(artifact) {
			names = append(names, artifact.Name)
		}
	}

	return names
}

// Path is where something in it is.
func (d *Dist) Path(name string) string { return filepath.Join(d.Dir, name) }

// Statements returns everything the build stated about its artifacts: their provenance, and the SBOM of
// each that is for one architecture. It is refused when that is not what was built.
func (d *Dist) Statements(ctx context.Context) ([]attest.Statement, error) {
	describing := []string{ReportName}

	for _, artifact := range d.Report.artifacts() {
		if artifact.Kind == KindSBOM || artifact.Kind == KindProvenance {
			describing = append(describing, artifact.Name)
		}
	}

	if err := d.CheckContent(ctx, describing...); err != nil {
		return nil, fmt.Errorf("%s is not as it was built: %w: build again", d.Dir, err)
	}

	var all []attest.Statement

	for _, profile := range d.Report.Profiles {
		data, err := sums.ReadFile(d.Path(ProvenanceName(profile.Name)))
		if err != nil {
			return nil, fmt.Errorf("reading provenance: %w: build with this version of cnibake", err)
		}

		provenance, err := attest.ParseStatements(data)
		if err != nil {
			return nil, fmt.Errorf("reading provenance: %s: %w", ProvenanceName(profile.Name), err)
		}

		sboms, err := d.sboms(profile)
		if err != nil {
			return nil, fmt.Errorf("reading SBOM: %w", err)
		}

		all = append(append(all, provenance...), sboms...)
	}

	return all, nil
}

// asBuilt refuses layouts and files that are not what the build wrote. Signing adds to the index of a layout,
// which therefore has another sum; which images it publishes is in the provenance.
func (d *Dist) asBuilt(ctx context.Context, names []string) error {
	if err := d.CheckContent(ctx, names...); err != nil {
		return fmt.Errorf("%s is not as it was built: %w: build again", d.Dir, err)
	}

	statements, err := d.Statements(ctx)
	if err != nil {
		return err
	}

	for _, name := range d.Layouts() {
		if !slices.Contains(names, name) {
			continue
		}

		layout, err := oci.OpenLayout(d.Path(name))
		if err != nil {
			return err
		}

		subjects, err := layout.Subjects(ctx)
		if err != nil {
			return err
		}

		built := slices.ContainsFunc(statements, func(s attest.Statement) bool {
			return s.PredicateType == attest.Provenance && s.Subject[0].Name == name && s.About(subjects[0].Descriptor.Digest)
		})
		if !built {
			return attest.RefusedError{Reason: fmt.Errorf("%s is not as it was built: %s/index.json was altered: build again", d.Dir, name)}
		}
	}

	return nil
}

func (d *Dist) sboms(profile ProfileReport) ([]attest.Statement, error) {
	var all []attest.Statement

	state := func(name, arch, digest string) error {
		if !slices.ContainsFunc(profile.Payloads, func(p PayloadReport) bool { return p.Arch == arch }) {
			return nil
		}

		sbom, err := sums.ReadFile(d.Path(SBOMName(profile.Name, arch)))
		if err != nil {
			return err
		}

		all = append(all, attest.NewStatement(name, digest, attest.SPDX, sbom))

		return nil
	}

	for _, artifact := range profile.Artifacts {
		switch artifact.Kind {
		case KindOCILayout:
			for _, image := range artifact.Images {
				if err := state(artifact.Name+"-"+image.Arch, image.Arch, image.Digest); err != nil {
					return nil, err
				}
			}
		case KindArchive, KindExtensionTar, KindOCIArchive:
			if err := state(artifact.Name, artifact.Arch, artifact.Digest); err != nil {
				return nil, err
			}
		}
	}

	return all, nil
}
