package airgap

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cnibake/cnibake/builder/sums"
)

// build is what a bundle needs of build.json, the report of a build.
type build struct {
	Version  string    `json:"version"`
	Created  time.Time `json:"created"`
	Profiles []struct {
		Name string `json:"name"`
		// Image is the name under which the profile's layout is published, without tag.
		Image     string     `json:"image"`
		Artifacts []artifact `json:"artifacts"`
	} `json:"profiles"`
}

type artifact struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	Images []struct {
		Arch   string `json:"arch"`
		Digest string `json:"digest"`
	} `json:"images"`
}

const (
	buildName  = "build.json"
	kindLayout = "oci-layout"
)

// layoutReport is a layout that was built, and the name of its image.
type layoutReport struct {
	artifact
	// Image is REPOSITORY:TAG.
	Image string
}

func parseBuild(data []byte) (*build, error) {
	var b build
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("reading %s: %w", buildName, err)
	}

	for _, profile := range b.Profiles {
		for _, artifact := range profile.Artifacts {
			// It becomes a part of paths.
			if !filepath.IsLocal(artifact.Name) || artifact.Name != filepath.Base(artifact.Name) {
				return nil, fmt.Errorf("reading %s: it lists an artifact %q, which is no name of a file: build again", buildName, artifact.Name)
			}
		}
	}

	return &b, nil
}

// layouts returns the layouts that were built, in the order of the report.
func (b *build) layouts() ([]layoutReport, error) {
	var layouts []layoutReport

	for _, profile := range b.Profiles {
		for _, artifact := range profile.Artifacts {
			if artifact.Kind != kindLayout {
				continue
			}

			if profile.Image == "" {
				return nil, fmt.Errorf("%s does not say under which name %s is published: add the key image to the profile and build again", buildName, artifact.Name)
			}

			name := profile.Image + ":" + b.Version
			if i := slices.IndexFunc(layouts, func(l layoutReport) bool { return l.Image == name }); i >= 0 {
				return nil, fmt.Errorf("%s gives %s and %s the same name, %s: change the key image of one profile and build again", buildName, layouts[i].Name, artifact.Name, name)
			}

			layouts = append(layouts, layoutReport{artifact, name})
		}
	}

	return layouts, nil
}

// NameOf returns the name, REPOSITORY:TAG, under which a layout in a build's output directory is
// published, as the report beside it says.
func NameOf(layout string) (string, error) {
	layout = filepath.Clean(layout)
	report := filepath.Join(filepath.Dir(layout), buildName)

	data, err := sums.ReadFile(report)
	if err != nil {
		return "", fmt.Errorf("finding the name of %s: %w", layout, err)
	}

	b, err := parseBuild(data)
	if err != nil {
		return "", fmt.Errorf("finding the name of %s: %w", layout, err)
	}

	layouts, err := b.layouts()
	if err != nil {
		return "", fmt.Errorf("finding the name of %s: %w", layout, err)
	}

	for _, l := range layouts {
		if l.Name == filepath.Base(layout) {
			return l.Image, nil
		}
	}

	return "", fmt.Errorf("finding the name of %s: %s does not list it", layout, report)
}
