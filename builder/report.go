package builder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/sums"
	"github.com/cnibake/cnibake/profiles"
)

// Report says what was built; it is build.json.
type Report struct {
	SchemaVersion int `json:"schemaVersion"`
	// Version is the packaged version of every artifact, for example v1.9.1-1.
	Version string      `json:"version"`
	Pin     payload.Pin `json:"pin"`
	// Toolchain is the version of the Go toolchain; empty when nothing was compiled.
	Toolchain string `json:"toolchain,omitempty"`
	// Source is where the binaries came from: module, release, archive or directory.
	Source string `json:"source"`
	// Unpinned is set when binaries were taken whose sum is not the pin's.
	Unpinned bool `json:"unpinned,omitempty"`
	// Created is the only time in the artifacts.
	Created  time.Time       `json:"created"`
	Profiles []ProfileReport `json:"profiles"`
}

// ProfileReport says what was built from one profile.
type ProfileReport struct {
	Name string `json:"name"`
	// Image is the repository that the profile's layout is published as, without tag.
	Image       string               `json:"image,omitempty"`
	Format      profiles.Format      `json:"format"`
	Packaging   profiles.Packaging   `json:"packaging"`
	Compression profiles.Compression `json:"compression"`
	Payloads    []PayloadReport      `json:"payloads"`
	Artifacts   []Artifact           `json:"artifacts"`
}

// PayloadReport lists the programs in the artifacts of one architecture.
type PayloadReport struct {
	Arch      string           `json:"arch"`
	Plugins   []payload.Plugin `json:"plugins"`
	Installer *ProgramReport   `json:"installer,omitempty"`
}

// ProgramReport is a program beside the plugins.
type ProgramReport struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Kinds of artifacts.
const (
	KindOCILayout    = "oci-layout"
	KindOCIArchive   = "oci-archive"
	KindExtensionTar = "extension-tar"
	KindArchive      = "archive"
	KindSBOM         = "sbom"
	KindProvenance   = "provenance"
)

// Artifact is one file or layout below the output directory.
type Artifact struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Arch is empty for a layout, which holds all architectures.
	Arch string `json:"arch,omitempty"`
	// Digest is empty for a layout, whose images have their own.
	Digest string `json:"digest,omitempty"`
	// Size is in bytes; for a layout that of all its files.
	Size   int64         `json:"size"`
	Images []ImageReport `json:"images,omitempty"`
}

func sortArtifacts(artifacts []Artifact) {
	slices.SortFunc(artifacts, func(a, b Artifact) int { return cmp.Compare(a.Name, b.Name) })
}

// ImageReport is one image of a layout.
type ImageReport struct {
	Arch string `json:"arch"`
	// Digest of the image manifest.
	Digest string        `json:"digest"`
	Layers []LayerReport `json:"layers"`
}

// LayerReport is one layer of an image.
type LayerReport struct {
	MediaType string `json:"mediaType"`
	// Digest and Size are those of the compressed bytes, as pulled; DiffID is the digest of the tar.
	Digest string `json:"digest"`
	DiffID string `json:"diffID"`
	Size   int64  `json:"size"`
}

// Encode returns the report's JSON text; the same build always gives the same bytes.
func (r *Report) Encode() ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	if err := encoder.Encode(r); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// artifactName matches every name that an artifact of ours can have, and no path.
var artifactName = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._-]*$`)

// readReport reads the report of the build in a directory.
func readReport(dir string) (Report, error) {
	var report Report

	data, err := sums.ReadFile(filepath.Join(dir, ReportName))
	if err != nil {
		return report, err
	}

	if err := json.Unmarshal(data, &report); err != nil {
		return report, fmt.Errorf("%s: %w", ReportName, err)
	}

	for _, artifact := range report.artifacts() {
		if !artifactName.MatchString(artifact.Name) {
			return report, fmt.Errorf("%s lists an artifact %q", ReportName, artifact.Name)
		}
	}

	return report, nil
}

func (r *Report) artifacts() []Artifact {
	var all []Artifact
	for _, profile := range r.Profiles {
		all = append(all, profile.Artifacts...)
	}

	return all
}
