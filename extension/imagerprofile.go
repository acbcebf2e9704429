package extension

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/siderolabs/talos/pkg/machinery/imager/quirks"
	"gopkg.in/yaml.v3"

	"github.com/cnibake/cnibake/profiles"
)

// talosData holds facts about Talos releases, each file with its source and the day it was read.
//
//go:embed data
var talosData embed.FS

// ImagerProfile says what the Talos imager is to make.
type ImagerProfile struct {
	// Talos is the release, for example v1.13.9.
	Talos string
	// Kind is one of ImagerKinds.
	Kind string
	// Arch is amd64 or arm64.
	Arch string
	// SecureBoot asks for an image that is signed for UEFI secure boot.
	SecureBoot bool
	Extensions []ImagerAsset
}

// imagerProfile is the profile as Talos reads it (pkg/imager/profile). What is left out here the imager
// fills in.
type imagerProfile struct {
	Arch       string       `yaml:"arch"`
	Platform   string       `yaml:"platform"`
	SecureBoot bool         `yaml:"secureboot"`
	Version    string       `yaml:"version"`
	Input      imagerInput  `yaml:"input"`
	Output     imagerOutput `yaml:"output"`
}

type imagerInput struct {
	SystemExtensions []ImagerAsset `yaml:"systemExtensions"`
}

type imagerOutput struct {
	Kind         string        `yaml:"kind"`
	ImageOptions *imageOptions `yaml:"imageOptions,omitempty"`
	OutFormat    string        `yaml:"outFormat"`
}

type imageOptions struct {
	DiskSize   int64  `yaml:"diskSize"`
	DiskFormat string `yaml:"diskFormat"`
}

type imagerKind struct {
	Name       string       `yaml:"name"`
	Platform   string       `yaml:"platform"`
	SecureBoot bool         `yaml:"secureboot"`
	Output     imagerOutput `yaml:"output"`
}

var imagerKinds = sync.OnceValues(func() ([]imagerKind, error) {
	const name = "data/imager-kinds.yaml"

	data, err := talosData.ReadFile(name)
	if err != nil {
		return nil, err
	}

	var file struct {
		Source string       `yaml:"source"`
		Read   string       `yaml:"read"`
		Kinds  []imagerKind `yaml:"kinds"`
	}

	if err := profiles.DecodeStrict(name, data, &file); err != nil {
		return nil, err
	}

	return file.Kinds, nil
})

// ImagerKinds returns the names of what a profile can ask for.
func ImagerKinds() []string {
	kinds, err := imagerKinds()
	if err != nil {
		panic(err) // the file is compiled in
	}

	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = kind.Name
	}

	return names
}

// Encode returns the profile's YAML text.
func (p ImagerProfile) Encode() ([]byte, error) {
	kinds, err := imagerKinds()
	if err != nil {
		return nil, err
	}

	version, err := ParseTalos(p.Talos)
	if err != nil {
		return nil, err
	}

	if p.Arch != "amd64" && p.Arch != "arm64" {
		return nil, fmt.Errorf("architecture %q is none of amd64, arm64", p.Arch)
	}

	for _, kind := range kinds {
		if kind.Name != p.Kind {
			continue
		}

		switch {
		case p.SecureBoot && !kind.SecureBoot:
			return nil, fmt.Errorf("the imager makes no secure boot variant of %s", p.Kind)
		case p.SecureBoot && !quirks.New(p.Talos).SupportsUKI():
			return nil, fmt.Errorf("secure boot is not in Talos %s yet", p.Talos)
		}

		return encodeYAML(imagerProfile{
			Arch: p.Arch, Platform: kind.Platform, SecureBoot: p.SecureBoot, Version: "v" + version.String(),
			Input: imagerInput{SystemExtensions: p.Extensions}, Output: kind.Output,
		})
	}

	return nil, fmt.Errorf("kind %q is none of %s", p.Kind, strings.Join(ImagerKinds(), ", "))
}

// ParseTalos reads a Talos release such as v1.13.9.
func ParseTalos(release string) (semver.Version, error) {
	version, err := semver.Parse(strings.TrimPrefix(release, "v"))
	if err != nil {
		return version, fmt.Errorf("parsing Talos release %q: %w: give one such as v1.13.9", release, err)
	}

	return version, nil
}

func encodeYAML(v any) ([]byte, error) {
	var out bytes.Buffer

	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)

	if err := encoder.Encode(v); err != nil {
		return nil, err
	}

	return out.Bytes(), encoder.Close()
}
