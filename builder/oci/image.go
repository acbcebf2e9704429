package oci

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ImageConfig is what an image says about itself beside its layer.
type ImageConfig struct {
	// Arch is the architecture in Go's names; the operating system is always linux.
	Arch string
	// Created is the only time in the image.
	Created time.Time
	// Annotations go onto the manifest and, as labels, into the configuration: registries show the
	// former, container runtimes the latter.
	Annotations map[string]string
	// Entrypoint of a runnable image; empty for one that only carries files.
	Entrypoint []string
	// User, as UID:GID, that a runnable image starts as.
	User string
}

// Platform returns the OCI platform of an architecture in Go's names.
func Platform(arch string) v1.Platform {
	platform := v1.Platform{OS: "linux", Architecture: arch}
	if arch == "arm" {
		platform.Variant = "v7"
	}

	return platform
}

// NewImage returns an OCI image with one layer.
func NewImage(layer v1.Layer, config ImageConfig) (v1.Image, error) {
	// empty.Image is Docker's flavour.
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)

	image, err := mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: config.Created}, CreatedBy: "cnibake build"},
	})
	if err != nil {
		return nil, fmt.Errorf("adding layer: %w", err)
	}

	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}

	platform := Platform(config.Arch)

	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	file.Created = v1.Time{Time: config.Created}
	file.Config = v1.Config{
		Labels:     config.Annotations,
		Entrypoint: config.Entrypoint,
		User:       config.User,
	}

	if len(config.Entrypoint) > 0 {
		file.Config.Env = []string{"PATH=/"}
		file.Config.WorkingDir = "/"
	}

	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("setting image configuration: %w", err)
	}

	annotated, ok := mutate.Annotations(image, config.Annotations).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotating image: unexpected type %T", annotated)
	}

	return annotated, nil
}
