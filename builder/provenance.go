package builder

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
)

// ProvenanceName is the file with the provenance of everything built from a profile: one in-toto
// statement a line, not signed.
func ProvenanceName(profile string) string { return profile + ".provenance.jsonl" }

// SBOMName is the file with the SBOM of a profile's artifacts for an architecture.
func SBOMName(profile, arch string) string { return profile + "-" + arch + ".spdx.json" }

// provenance states how each artifact of a target was made, also the index that its layout is
// published as, and each image.
func (p *plan) provenance(ctx context.Context, target *Target, out *Output) ([]byte, error) {
	artifacts := slices.Clone(out.artifacts)
	sortArtifacts(artifacts)

	var lines bytes.Buffer

	for _, artifact := range artifacts {
		builds := []attest.Build{{Artifact: artifact.Name, Digest: artifact.Digest, Parameters: attest.Parameters{Arch: artifact.Arch}}}

		if artifact.Kind == KindOCILayout {
			var err error
			if builds, err = imageBuilds(ctx, out, artifact); err != nil {
				return nil, fmt.Errorf("stating provenance of %s: %w", artifact.Name, err)
			}
		}

		for _, build := range builds {
			if err := p.complete(ctx, target, &build); err != nil {
				return nil, err
			}

			statement, err := build.Statement()
			if err != nil {
				return nil, err
			}

			line, err := statement.Encode()
			if err != nil {
				return nil, err
			}

			lines.Write(append(line, '\n'))
		}
	}

	return lines.Bytes(), nil
}

// imageBuilds lists the index that a layout is published as, and its images.
func imageBuilds(ctx context.Context, out *Output, artifact Artifact) ([]attest.Build, error) {
	layout, err := oci.OpenLayout(filepath.Join(out.Work(), artifact.Name))
	if err != nil {
		return nil, err
	}

	subjects, err := layout.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	images := make(map[string]string)
	builds := make([]attest.Build, 0, len(subjects))

	for _, subject := range subjects {
		build := attest.Build{Artifact: artifact.Name, Digest: subject.Descriptor.Digest.String()}

		if platform := subject.Descriptor.Platform; subject.Image != nil && platform != nil {
			build.Artifact = artifact.Name + "-" + platform.Architecture
			build.Parameters.Arch = platform.Architecture
			images[platform.String()] = build.Digest
		} else {
			build.Images = images
		}

		builds = append(builds, build)
	}

	return builds, nil
}

// complete adds what all artifacts of a target share, and the payload of the artifact's architecture.
func (p *plan) complete(ctx context.Context, target *Target, build *attest.Build) error {
	arch := build.Parameters.Arch
	if arch == "" {
		arch = target.Architectures[0]
	}

	payload, err := target.Payload(ctx, arch)
	if err != nil {
		return err
	}

	build.Version = p.options.Version
	build.Manifest = payload.Manifest
	build.Binaries = payload.binaries

	if payload.Installer != nil {
		build.Installer = payload.Installer.Digest
	}

	build.Parameters = attest.Parameters{
		Profile:         target.Profile.Name,
		Format:          string(target.Profile.Format),
		Arch:            build.Parameters.Arch,
		Pin:             target.Pin.Version,
		Source:          p.options.Source.Kind(),
		Packaging:       string(target.Profile.Packaging),
		Compression:     string(target.Profile.Compression),
		With:            p.options.Plugins.With,
		Without:         p.options.Plugins.Without,
		Unpinned:        payload.Manifest.Unpinned,
		SourceDateEpoch: target.Created.Unix(),
	}

	return nil
}
