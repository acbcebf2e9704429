package release

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// imagerProfile reads the input of Talos's imager: version at the top, beside input or output.
func imagerProfile(root *yaml.Node) ([]Shipped, error) {
	input, output := child(root, "input"), child(root, "output")
	isMapping := func(node *yaml.Node) bool { return node != nil && node.Kind == yaml.MappingNode }

	if !isMapping(input) && (!isMapping(output) || child(root, "platform") == nil && child(root, "arch") == nil) {
		return nil, nil
	}

	shipped := Shipped{Kind: "imager profile", Writer: Talos}

	version, line := text(root, "version")
	if version == "" {
		return nil, errors.New("the imager profile has no version, so the imager's own counts: add version: vX.Y.Z, or pass that version")
	}

	if err := shipped.releaseOf(version, at(line, "version")); err != nil {
		return nil, err
	}

	reference, line := text(input, "baseInstaller", "imageRef")
	if reference == "" {
		return []Shipped{shipped}, nil
	}

	base, err := ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(line, "input.baseInstaller.imageRef"), err)
	}

	// The tag of a private image can be anything.
	if base.Writer == Talos && base.Release != "" && base.Release != shipped.Release {
		return nil, fmt.Errorf("version is %s, but input.baseInstaller in line %d is %s: make them one release", shipped.Release, line, base.Release)
	}

	return []Shipped{shipped}, nil
}

// machineConfig reads machine.install.image of a Talos machine configuration or of a patch for one.
func machineConfig(root *yaml.Node) ([]Shipped, error) {
	version, _ := text(root, "version")
	machine := child(root, "machine")

	if machine == nil || machine.Kind != yaml.MappingNode || version != "" && version != "v1alpha1" {
		return nil, nil
	}

	reference, line := text(machine, "install", "image")
	if reference == "" {
		if version == "" && child(machine, "install") == nil {
			return nil, nil
		}

		return nil, errors.New("the machine configuration has no machine.install.image, so the release that installs it counts: pass that version")
	}

	shipped, err := ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(line, "machine.install.image"), err)
	}

	shipped.Kind = "machine configuration"
	shipped.Writer = Talos

	for i := range shipped.Evidence {
		shipped.Evidence[i].From = at(line, "machine.install.image: "+reference)
	}

	return []Shipped{shipped}, nil
}

// versionResource reads what talosctl get version prints in YAML or JSON, and talosctl version --json.
func versionResource(root *yaml.Node) ([]Shipped, error) {
	version, line, node := "", 0, ""

	if typ, _ := text(root, "metadata", "type"); strings.EqualFold(typ, "Versions.runtime.talos.dev") {
		version, line = text(root, "spec", "version")
		node, _ = text(root, "node")
	} else if _, sum := text(root, "version", "sha"); sum != 0 {
		version, line = text(root, "version", "tag")
		node, _ = text(root, "metadata", "hostname")
	} else {
		return nil, nil
	}

	shipped := Shipped{Kind: "running node", Writer: Talos}

	from := "what the node says of itself"
	if node != "" {
		from = "what node " + shorten(node) + " says of itself"
	}

	if version == "" {
		return nil, fmt.Errorf("%s: no version", at(line, from))
	}

	if err := shipped.releaseOf(version, from); err != nil {
		return nil, err
	}

	return []Shipped{shipped}, nil
}

var (
	talosctlHead = regexp.MustCompile(`(?m)^[ \t]*(Client|Server):[ \t]*\r?$`)
	talosctlTag  = regexp.MustCompile(`(?m)^[ \t]+Tag:[ \t]*(\S+)[ \t]*\r?$`)
	talosctlNode = regexp.MustCompile(`(?m)^[ \t]+NODE:[ \t]*(\S+)[ \t]*\r?$`)
)

func isTalosctlVersion(data []byte) bool {
	return talosctlHead.Match(data) && (talosctlTag.Match(data) || strings.Contains(string(data), "Talos v"))
}

// talosctlVersion reads what talosctl version prints. The tag under Client is talosctl's own and says
// nothing about any node.
func talosctlVersion(output string) ([]Shipped, error) {
	_, server, ok := strings.Cut(output, "Server:")
	if !ok || !talosctlTag.MatchString(server) {
		return nil, errors.New("this is the version of talosctl alone: run talosctl version with --nodes, or pass the node's version")
	}

	var (
		all  []Shipped
		node string
	)

	for _, line := range strings.Split(server, "\n") {
		if m := talosctlNode.FindStringSubmatch(line); m != nil {
			node = m[1]
		}

		m := talosctlTag.FindStringSubmatch(line)
		if m == nil {
			continue
		}

		shipped := Shipped{Kind: "running node", Writer: Talos}
		if err := shipped.releaseOf(m[1], "what node "+shorten(node)+" says of itself"); err != nil {
			return nil, err
		}

		all = append(all, shipped)
	}

	return all, nil
}

// pkgfile reads cni_version of a siderolabs/pkgs checkout.
func pkgfile(root *yaml.Node) ([]Shipped, error) {
	version, line := text(root, "vars", "cni_version")
	if version == "" {
		return nil, nil
	}

	plugins, err := parseVersion(version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at(line, "vars.cni_version"), err)
	}

	return []Shipped{{
		Kind: "Pkgfile", Writer: Talos, Plugins: plugins,
		Why:      "a Pkgfile does not name the Talos release that is built from it",
		Evidence: []Evidence{{"plugins " + plugins, at(line, "vars.cni_version")}},
	}}, nil
}
