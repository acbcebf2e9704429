package airgap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/sums"
)

// filesDir is where a bundle keeps the files of a build's output that are no image layouts.
const filesDir = "files/"

// unlisted are the files that belong to a build and are not in its sums: the sums, and what signs them.
var unlisted = []string{sums.Name, sums.Name + attest.SignatureSuffix}

// fileName matches the names that files of a bundle may have.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// dist is the output directory of a build.
type dist struct {
	path string
	// sums is the text of SHA256SUMS.
	sums    []byte
	build   *build
	layouts []layoutReport
	// files are members below filesDir.
	files []member
	// leftOut names what else is in the directory.
	leftOut []string
}

// readDist reads and hashes what a build wrote. Every file that is missing, or is not what SHA256SUMS
// says, is named in the error.
func readDist(ctx context.Context, path string) (*dist, error) {
	d := &dist{path: path}

	var err error
	if d.sums, err = sums.ReadFile(filepath.Join(path, sums.Name)); err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	listed, err := sums.Parse(d.sums)
	if err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	report, err := sums.ReadFile(filepath.Join(path, buildName))
	if err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	if d.build, err = parseBuild(report); err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	if d.layouts, err = d.build.layouts(); err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	var wrong sums.Differences

	for _, s := range listed {
		if err := d.add(ctx, s, &wrong); err != nil {
			return nil, fmt.Errorf("reading the build in %s: %w", path, err)
		}
	}

	d.checkReport(listed, &wrong)

	if err := d.addUnlisted(ctx, listed); err != nil {
		return nil, fmt.Errorf("reading the build in %s: %w", path, err)
	}

	if err := wrong.Err(); err != nil {
		return nil, fmt.Errorf("%s is not as cnibake build left it: %w: build again", path, err)
	}

	return d, nil
}

// add compares one listed file and takes it, unless it is part of a layout.
func (d *dist) add(ctx context.Context, s sums.Sum, wrong *sums.Differences) error {
	layout, inLayout, nested := strings.Cut(s.Name, "/")
	if nested {
		if !d.isLayout(layout) {
			return fmt.Errorf("%s lists %s, which is in no layout of %s", sums.Name, s.Name, buildName)
		}

		// Signatures are added to a layout's index, which is therefore not what it was.
		if !strings.HasPrefix(inLayout, "blobs/") {
			return nil
		}
	} else if !fileName.MatchString(s.Name) {
		return fmt.Errorf("%s lists %q, a name that a bundle cannot hold", sums.Name, s.Name)
	}

	m, err := fileMember(ctx, filesDir+s.Name, filepath.Join(d.path, filepath.FromSlash(s.Name)))

	switch {
	case errors.Is(err, fs.ErrNotExist):
		wrong.Missing(s.Name)
	case err != nil:
		return err
	case m.hex != s.Hex:
		wrong.Altered(s.Name)
	case !nested:
		d.files = append(d.files, m)
	}

	return nil
}

func (d *dist) isLayout(name string) bool {
	return slices.ContainsFunc(d.layouts, func(l layoutReport) bool { return l.Name == name })
}

// checkReport compares the artifacts of the report with the sums.
func (d *dist) checkReport(listed []sums.Sum, wrong *sums.Differences) {
	for _, profile := range d.build.Profiles {
		for _, artifact := range profile.Artifacts {
			i := slices.IndexFunc(listed, func(s sums.Sum) bool { return s.Name == artifact.Name })

			switch {
			case artifact.Kind == kindLayout:
			case i < 0:
				wrong.Missing(artifact.Name)
			case "sha256:"+listed[i].Hex != artifact.Digest:
				wrong.Altered(artifact.Name)
			}
		}
	}
}

// addUnlisted takes the sums and what signs them, and notes what is nobody's.
func (d *dist) addUnlisted(ctx context.Context, listed []sums.Sum) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}

	for _, entry := range entries {
		name := entry.Name()

		switch {
		case slices.Contains(unlisted, name):
			m, err := fileMember(ctx, filesDir+name, filepath.Join(d.path, name))
			if err != nil {
				return err
			}

			d.files = append(d.files, m)
		case d.isLayout(name), strings.HasPrefix(name, "."):
		case !slices.ContainsFunc(listed, func(s sums.Sum) bool { return s.Name == name }):
			d.leftOut = append(d.leftOut, name)
		}
	}

	return nil
}
