package artifact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The two shapes of the extension and the architectures they are made for.
const (
	Talos         = "talos"
	TalosReadonly = "talos-readonly"

	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Profiles and Architectures span every Talos artifact.
var (
	Profiles      = []string{Talos, TalosReadonly}
	Architectures = []string{AMD64, ARM64}
)

// Plugin is a plugin as build.json and .cni-plugins.json list it.
type Plugin struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`
}

// Dist is an output directory of cnibake.
type Dist struct {
	Dir    string
	report report
}

type report struct {
	Version  string `json:"version"`
	Profiles []struct {
		Name     string `json:"name"`
		Payloads []struct {
			Arch    string   `json:"arch"`
			Plugins []Plugin `json:"plugins"`
		} `json:"payloads"`
	} `json:"profiles"`
}

// Build runs cnibake build with these arguments into a directory of the test.
func Build(t testing.TB, args ...string) *Dist {
	t.Helper()

	dist := &Dist{Dir: filepath.Join(t.TempDir(), "dist")}

	cmd := exec.Command(Command(t), append([]string{"build", "--quiet", "--out", dist.Dir}, args...)...)

	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	if err := cmd.Run(); err != nil {
		t.Fatalf("cnibake build: %v\n%s", err, stderr.Bytes())
	}

	text, err := os.ReadFile(filepath.Join(dist.Dir, "build.json"))
	if err != nil {
		t.Fatal(err)
	}

	if err := json.Unmarshal(text, &dist.report); err != nil {
		t.Fatal(err)
	}

	return dist
}

// Layout is the OCI layout of a profile.
func (d *Dist) Layout(profile string) string { return filepath.Join(d.Dir, profile) }

// Tar is the plain tar of a profile for one architecture.
func (d *Dist) Tar(profile, arch string) string {
	return filepath.Join(d.Dir, fmt.Sprintf("%s-%s.tar", profile, arch))
}

// Version is the version every artifact carries.
func (d *Dist) Version() string { return d.report.Version }

// Plugins are those that build.json lists for a profile and architecture.
func (d *Dist) Plugins(t testing.TB, profile, arch string) []Plugin {
	t.Helper()

	for _, p := range d.report.Profiles {
		if p.Name != profile {
			continue
		}

		for _, payload := range p.Payloads {
			if payload.Arch == arch {
				return slices.Clone(payload.Plugins)
			}
		}
	}

	t.Fatalf("build.json lists nothing for %s on %s", profile, arch)

	return nil
}

// ReadManifest reads a .cni-plugins.json.
func ReadManifest(path string) ([]Plugin, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	var manifest struct {
		Plugins []Plugin `json:"plugins"`
	}

	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", path, err)
	}

	return manifest.Plugins, nil
}
