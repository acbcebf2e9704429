package attest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
)

// Content is what an image or an archive was found to hold. Whoever looked computed every digest from
// the bytes.
type Content struct {
	// Arch is the architecture that the image claims.
	Arch string
	// Manifest is the one beside the plugins; nil when there is none.
	Manifest *payload.Manifest
	// Plugins are the digests of the plugins by name.
	Plugins map[string]string
	// Programs are the digests of everything that can be executed, by path.
	Programs map[string]string
	// Fault says what does not fit together in itself: a plugin that is not what the manifest says, or
	// is for another architecture. It is empty when all is well.
	Fault string
}

// agrees reports how the content differs from what was attested, if it does.
func (p provenance) agrees(content Content) error {
	if content.Fault != "" {
		return refuse("%s", content.Fault)
	}

	if content.Manifest == nil {
		return refuse("it has no manifest of its plugins")
	}

	definition := p.BuildDefinition

	if arch := definition.ExternalParameters.Arch; arch != content.Arch {
		return refuse("it is for %s, and the provenance is of a build for %s", content.Arch, arch)
	}

	if pin := definition.InternalParameters.Pin; pin != content.Manifest.Pin {
		return refuse("its manifest says pin %s (%s), and the provenance %s (%s)",
			content.Manifest.Pin.Version, content.Manifest.Pin.Sum, pin.Version, pin.Sum)
	}

	plugins, err := p.dependencies(kindPlugin)
	if err != nil {
		return refuse("%v", err)
	}

	if err := sameFiles("plugin", plugins, content.Plugins); err != nil {
		return err
	}

	installers, err := p.dependencies(kindInstaller)
	if err != nil {
		return refuse("%v", err)
	}

	return p.nothingElse(content, slices.Concat(slices.Collect(maps.Values(plugins)), slices.Collect(maps.Values(installers))))
}

// nothingElse finds programs that are not attested.
func (p provenance) nothingElse(content Content, attested []string) error {
	for _, name := range slices.Sorted(maps.Keys(content.Programs)) {
		if digest := content.Programs[name]; !slices.Contains(attested, digest) {
			return refuse("the program %s (%s) in it is not in the provenance", name, digest)
		}
	}

	return nil
}

func sameFiles(kind string, attested, there map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(attested)) {
		switch got := there[name]; got {
		case attested[name]:
		case "":
			return refuse("%s %s is missing: the provenance lists it as %s", kind, name, attested[name])
		default:
			return refuse("%s %s has %s: the provenance lists it as %s", kind, name, got, attested[name])
		}
	}

	for _, name := range slices.Sorted(maps.Keys(there)) {
		if attested[name] == "" {
			return refuse("%s %s (%s) is not in the provenance", kind, name, there[name])
		}
	}

	return nil
}

// sbomAgrees compares the programs that an SPDX document lists with the content. Documents that are not
// of this program's making list none that could be compared.
func sbomAgrees(s Statement, content Content) error {
	var document struct {
		Packages []struct {
			Name      string `json:"name"`
			Checksums []struct {
				Algorithm string `json:"algorithm"`
				Value     string `json:"checksumValue"`
			} `json:"checksums"`
		} `json:"packages"`
	}

	// cosign has SPDX in its other form, tag and value, as one string.
	if err := json.Unmarshal(s.Predicate, &document); err != nil {
		return refuse("the attested SBOM is not SPDX in JSON: %v", err)
	}

	for _, pkg := range document.Packages {
		name, ok := strings.CutPrefix(pkg.Name, sbomPlugin)
		if !ok || content.Plugins[name] == "" {
			continue
		}

		for _, sum := range pkg.Checksums {
			if sum.Algorithm == "SHA256" && "sha256:"+sum.Value != content.Plugins[name] {
				return refuse("plugin %s has %s: the attested SBOM lists it as sha256:%s", name, content.Plugins[name], sum.Value)
			}
		}
	}

	return nil
}

// sbomPlugin begins the names of plugins in our SPDX documents.
const sbomPlugin = "cni-plugin-"

// describePins lists pins for messages.
func describePins(pins []payload.Pin) string {
	texts := make([]string, 0, len(pins))
	for _, pin := range pins {
		texts = append(texts, fmt.Sprintf("%s (%s)", pin.Version, pin.Sum))
	}

	return strings.Join(texts, ", ")
}
