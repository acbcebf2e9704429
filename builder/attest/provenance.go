package attest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
)

// What provenance statements call this program and what it does.
const (
	builderID = "https://github.com/cnibake/cnibake"
	buildType = builderID + "/build/v1"
)

// Kinds of what went into an artifact, in the annotations of a dependency.
const (
	kindKey       = "kind"
	kindModule    = "module"
	kindToolchain = "toolchain"
	kindPlugin    = "plugin"
	kindInstaller = "installer"
	kindImage     = "image"
)

// Build says how an artifact was made.
type Build struct {
	// Artifact is its name: a file, a layout, or an image of a layout.
	Artifact, Digest string
	// Parameters are what the user chose.
	Parameters Parameters
	// Manifest lists the plugin set in the artifact; for an index, that of any of its images.
	Manifest payload.Manifest
	// Binaries maps each plugin's name to its build info.
	Binaries map[string]payload.Binary
	// Installer is the digest of install-cni-plugins; empty where the artifact has none.
	Installer string
	// Images are the digests of an index's images by platform; empty for anything else. What is in
	// the images is for their own statements to say.
	Images map[string]string
	// Version is that of this program.
	Version string
}

// Parameters are the external parameters of a build: with them and the same version of this program
// anybody can build the same bytes.
type Parameters struct {
	Profile     string   `json:"profile"`
	Format      string   `json:"format"`
	Arch        string   `json:"arch,omitempty"`
	Pin         string   `json:"pin"`
	Source      string   `json:"source"`
	Packaging   string   `json:"packaging"`
	Compression string   `json:"compression"`
	With        []string `json:"with,omitempty"`
	Without     []string `json:"without,omitempty"`
	Unpinned    bool     `json:"allowUnpinned,omitempty"`
	// SourceDateEpoch is the only time in the artifact, in seconds since 1970.
	SourceDateEpoch int64 `json:"sourceDateEpoch"`
}

// internalParameters are settings that the pin file fixes.
type internalParameters struct {
	PackagedVersion string      `json:"packagedVersion"`
	Revision        int         `json:"revision"`
	Pin             payload.Pin `json:"pin"`
}

// provenance is a SLSA v1 predicate.
type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string             `json:"buildType"`
	ExternalParameters   Parameters         `json:"externalParameters"`
	InternalParameters   internalParameters `json:"internalParameters"`
	ResolvedDependencies []Resource         `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version,omitempty"`
	} `json:"builder"`
}

// Statement returns the provenance of an artifact. It holds no time but the parameters', so that the
// same build always gives the same bytes.
func (b Build) Statement() (Statement, error) {
	manifest := b.Manifest
	module := debug.Module{Path: manifest.Pin.Module, Version: manifest.Pin.Version}
	source := Resource{Name: module.Path, URI: purl(module), Annotations: map[string]any{kindKey: kindModule}}

	// Binaries that are not held to the pin's sums came from anywhere.
	if !manifest.Unpinned {
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(manifest.Pin.Sum, "h1:"))
		if err != nil {
			return Statement{}, fmt.Errorf("stating provenance of %s: malformed module sum %q", b.Artifact, manifest.Pin.Sum)
		}

		source.Digest = map[string]string{"dirHash": hex.EncodeToString(sum)}
		source.Annotations["sum"] = manifest.Pin.Sum
	}

	p := provenance{BuildDefinition: buildDefinition{
		BuildType:          buildType,
		ExternalParameters: b.Parameters,
		InternalParameters: internalParameters{
			PackagedVersion: fmt.Sprintf("%s-%d", manifest.Pin.Version, manifest.Revision),
			Revision:        manifest.Revision,
			Pin:             manifest.Pin,
		},
		ResolvedDependencies: slices.Concat([]Resource{source}, b.toolchains(), b.contents()),
	}}

	p.RunDetails.Builder.ID = builderID
	p.RunDetails.Builder.Version = map[string]string{"cnibake": b.Version}

	predicate, err := json.Marshal(p)
	if err != nil {
		return Statement{}, fmt.Errorf("encoding provenance: %w", err)
	}

	return NewStatement(b.Artifact, b.Digest, Provenance, predicate), nil
}

// toolchains lists what the plugins were compiled with, as their own bytes say.
func (b Build) toolchains() []Resource {
	var versions []string

	for _, plugin := range b.Manifest.Plugins {
		binary := b.Binaries[plugin.Name]
		if binary.BuildInfo != nil && !slices.Contains(versions, binary.BuildInfo.GoVersion) {
			versions = append(versions, binary.BuildInfo.GoVersion)
		}
	}

	slices.Sort(versions)

	resources := make([]Resource, 0, len(versions))
	for _, version := range versions {
		resources = append(resources, Resource{
			Name: version, URI: purl(debug.Module{Path: "stdlib", Version: version}),
			Annotations: map[string]any{kindKey: kindToolchain},
		})
	}

	return resources
}

// contents lists the images of an index, or the programs of anything else.
func (b Build) contents() []Resource {
	var resources []Resource

	if len(b.Images) > 0 {
		for platform, digest := range b.Images {
			resources = append(resources, Resource{
				Name: platform, Digest: digestSet(digest), Annotations: map[string]any{kindKey: kindImage},
			})
		}

		slices.SortFunc(resources, func(x, y Resource) int { return strings.Compare(x.Name, y.Name) })

		return resources
	}

	for _, plugin := range b.Manifest.Plugins {
		resources = append(resources, Resource{
			Name: plugin.Name, Digest: digestSet(plugin.Digest),
			Annotations: map[string]any{kindKey: kindPlugin, "file": plugin.File, "version": plugin.Version},
		})
	}

	if b.Installer != "" {
		resources = append(resources, Resource{
			Name: "install-cni-plugins", Digest: digestSet(b.Installer), Annotations: map[string]any{kindKey: kindInstaller},
		})
	}

	return resources
}

// parseProvenance decodes the predicate of a provenance statement that this program wrote.
func parseProvenance(s Statement) (provenance, error) {
	var p provenance
	if err := json.Unmarshal(s.Predicate, &p); err != nil {
		return provenance{}, fmt.Errorf("decoding provenance: %w", err)
	}

	if p.BuildDefinition.BuildType != buildType {
		return provenance{}, fmt.Errorf("provenance is of a build of type %q, not %q", p.BuildDefinition.BuildType, buildType)
	}

	return p, nil
}

// dependencies returns what is of one kind: digests by name.
func (p provenance) dependencies(kind string) (map[string]string, error) {
	found := make(map[string]string)

	for _, r := range p.BuildDefinition.ResolvedDependencies {
		if r.Annotations[kindKey] != kind {
			continue
		}

		if _, twice := found[r.Name]; twice {
			return nil, fmt.Errorf("provenance lists %s %s twice", kind, r.Name)
		}

		found[r.Name] = "sha256:" + r.Digest["sha256"]
	}

	return found, nil
}
