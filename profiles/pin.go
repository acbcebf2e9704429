package profiles

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// DefaultPin is the version of the pin that is used unless another one is asked for.
const DefaultPin = "v1.9.1"

// Pin is the upstream release a plugin set is built from, with every sum it is held to.
type Pin struct {
	// Version is upstream's tag, for example v1.9.1.
	Version string `yaml:"version"`
	// Revision counts our own packagings of that version, from 1.
	Revision int `yaml:"revision"`
	// Module is the release as a Go module.
	Module Module `yaml:"module"`
	// Release is the release as upstream's binary archives.
	Release Release `yaml:"release"`
	// Plugins is the plugin set: what is carried by default.
	Plugins []Plugin `yaml:"plugins"`
	// LeftOut are the plugins upstream ships and we carry only on request.
	LeftOut []LeftOut `yaml:"leftOut"`
	// Markers say which release of each writer the pin was last compared with.
	Markers []Marker `yaml:"markers"`
}

// Module identifies a Go module and the sums the Go checksum database gives it.
type Module struct {
	Path string `yaml:"path"`
	// Sum is the "h1:" hash of the module's zip file, as in go.sum.
	Sum string `yaml:"sum"`
	// GoModSum is the "h1:" hash of the module's go.mod, as in go.sum.
	GoModSum string `yaml:"goModSum"`
	// VersionVariable is the import path and name of the string variable that holds a plugin's
	// own version and is set by the linker; empty when there is none.
	VersionVariable string `yaml:"versionVariable"`
}

// Release says where upstream's binary archives are and what their SHA-256 sums must be.
type Release struct {
	// URL of an archive; {version} and {arch} are replaced.
	URL string `yaml:"url"`
	// SHA256 maps an architecture to the archive's sum in lower-case hexadecimal.
	SHA256 map[string]string `yaml:"sha256"`
}

// Plugin is one upstream plugin.
type Plugin struct {
	Name string `yaml:"name" json:"name"`
	// Kind is main, meta or ipam.
	Kind string `yaml:"kind" json:"kind"`
	// Package is the plugin's directory inside the module.
	Package string `yaml:"package" json:"package"`
}

// LeftOut is a plugin that is not carried, and why.
type LeftOut struct {
	Plugin `yaml:",inline"`
	Reason string `yaml:"reason"`
}

// Marker records the release of a writer that the pin was last compared with.
type Marker struct {
	// Writer is a program that also writes the CNI bin directory.
	Writer string `yaml:"writer"`
	// Release is the writer's release.
	Release string `yaml:"release"`
	// Overlap lists the plugin names both carry.
	Overlap []string `yaml:"overlap"`
}

// URLFor returns the address of the release archive for an architecture.
func (r Release) URLFor(version, arch string) string {
	return strings.NewReplacer("{version}", version, "{arch}", arch).Replace(r.URL)
}

// PackagedVersion is the version our artifacts carry: upstream's and our revision, as in v1.9.1-1.
func (p Pin) PackagedVersion() string {
	return fmt.Sprintf("%s-%d", p.Version, p.Revision)
}

// Select returns the plugin set plus the names in with, minus those in without, sorted by name.
// A name that the pin does not know is an error.
func (p Pin) Select(with, without []string) ([]Plugin, error) {
	known := make(map[string]Plugin)
	chosen := make(map[string]bool)

	for _, plugin := range p.Plugins {
		known[plugin.Name] = plugin
		chosen[plugin.Name] = true
	}

	for _, left := range p.LeftOut {
		known[left.Name] = left.Plugin
	}

	for _, name := range slices.Concat(with, without) {
		if _, ok := known[name]; !ok {
			return nil, fmt.Errorf("unknown plugin %q: %s has %s", name, p.Version, strings.Join(sortedKeys(known), ", "))
		}
	}

	for _, name := range with {
		if slices.Contains(without, name) {
			return nil, fmt.Errorf("plugin %q is both asked for and left out: decide for one", name)
		}

		chosen[name] = true
	}

	for _, name := range without {
		delete(chosen, name)
	}

	if len(chosen) == 0 {
		return nil, errors.New("no plugin is left to carry: leave out fewer")
	}

	selection := make([]Plugin, 0, len(chosen))
	for _, name := range sortedKeys(chosen) {
		selection = append(selection, known[name])
	}

	return selection, nil
}

// Pins returns the versions of the built-in pins, oldest first.
func Pins() []string {
	versions := builtin(pinFiles, "pins")
	slices.SortFunc(versions, semver.Compare)

	return versions
}

// LoadPin returns the built-in pin of a version, or the pin in the file that the argument names:
// an argument with a slash or ending in .yaml or .yml is a file.
func LoadPin(versionOrFile string) (Pin, error) {
	file, data, err := read("pin", pinFiles, versionOrFile, Pins())
	if err != nil {
		return Pin{}, err
	}

	return ParsePin(file, data)
}

// ParsePin decodes a pin strictly and checks it; file is used in messages only.
func ParsePin(file string, data []byte) (Pin, error) {
	var pin Pin
	if err := DecodeStrict(file, data, &pin); err != nil {
		return Pin{}, err
	}

	if err := pin.validate(); err != nil {
		return Pin{}, fmt.Errorf("%s: %w", file, err)
	}

	return pin, nil
}

var (
	versionPattern = regexp.MustCompile(`^v(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9A-Za-z.-]{1,64})?$`)
	sumPattern     = regexp.MustCompile(`^h1:[A-Za-z0-9+/]{43}=$`)
	hexPattern     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	namePattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	packagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*$`)
	variable       = regexp.MustCompile(`^[A-Za-z0-9./_~-]+\.[A-Za-z_][A-Za-z0-9_]*$`)
	pluginKinds    = []string{"main", "meta", "ipam"}
)

func (p Pin) validate() error {
	switch {
	case !versionPattern.MatchString(p.Version):
		return fmt.Errorf("version %q is not a release tag like v1.9.1", p.Version)
	case p.Revision < 1:
		return fmt.Errorf("revision %d: packaging revisions start at 1", p.Revision)
	case p.Module.Path == "":
		return errors.New("module.path is missing")
	// It becomes an argument of the go command and a line of a go.sum.
	case module.CheckPath(p.Module.Path) != nil:
		return fmt.Errorf("module.path %q is not a Go module path", p.Module.Path)
	case !sumPattern.MatchString(p.Module.Sum):
		return fmt.Errorf("module.sum %q is not an h1: sum as go.sum has it", p.Module.Sum)
	case !sumPattern.MatchString(p.Module.GoModSum):
		return fmt.Errorf("module.goModSum %q is not an h1: sum as go.sum has it", p.Module.GoModSum)
	case p.Module.VersionVariable != "" && !variable.MatchString(p.Module.VersionVariable):
		return fmt.Errorf("module.versionVariable %q is not IMPORT/PATH.Name", p.Module.VersionVariable)
	case !strings.HasPrefix(p.Release.URL, "https://") && !strings.HasPrefix(p.Release.URL, "http://"):
		return fmt.Errorf("release.url %q is not an http(s) address", p.Release.URL)
	case len(p.Plugins) == 0:
		return errors.New("plugins is empty: a pin carries at least one")
	}

	for _, arch := range sortedKeys(p.Release.SHA256) {
		sum := p.Release.SHA256[arch]
		if !slices.Contains(Architectures(), arch) {
			return fmt.Errorf("release.sha256: unsupported architecture %q: use %s", arch, strings.Join(Architectures(), ", "))
		}

		if !hexPattern.MatchString(sum) {
			return fmt.Errorf("release.sha256.%s %q is not 64 hexadecimal digits", arch, sum)
		}
	}

	known := make(map[string]bool)

	check := func(plugin Plugin) error {
		switch {
		case !namePattern.MatchString(plugin.Name):
			return fmt.Errorf("plugin name %q: use lower-case letters, digits and dashes", plugin.Name)
		case known[plugin.Name]:
			return fmt.Errorf("plugin %q is listed twice", plugin.Name)
		case !slices.Contains(pluginKinds, plugin.Kind):
			return fmt.Errorf("plugin %q: kind %q is none of %s", plugin.Name, plugin.Kind, strings.Join(pluginKinds, ", "))
		case !packagePattern.MatchString(plugin.Package):
			return fmt.Errorf("plugin %q: package %q is not a directory inside the module", plugin.Name, plugin.Package)
		// The Go command names a program after its directory.
		case path.Base(plugin.Package) != plugin.Name:
			return fmt.Errorf("plugin %q: package %q builds a program of another name", plugin.Name, plugin.Package)
		}

		known[plugin.Name] = true

		return nil
	}

	for _, plugin := range p.Plugins {
		if err := check(plugin); err != nil {
			return err
		}
	}

	for _, left := range p.LeftOut {
		if err := check(left.Plugin); err != nil {
			return err
		}

		if left.Reason == "" {
			return fmt.Errorf("leftOut: %q has no reason: say why it is not carried", left.Name)
		}
	}

	writers := make(map[string]bool)

	for _, marker := range p.Markers {
		switch {
		case !namePattern.MatchString(marker.Writer):
			return fmt.Errorf("markers: writer %q: use lower-case letters, digits and dashes", marker.Writer)
		case writers[marker.Writer]:
			return fmt.Errorf("markers: writer %q is listed twice", marker.Writer)
		case !versionPattern.MatchString(marker.Release):
			return fmt.Errorf("markers: %s: release %q is not a version like v1.13.6", marker.Writer, marker.Release)
		}

		writers[marker.Writer] = true

		for _, name := range marker.Overlap {
			if !known[name] {
				return fmt.Errorf("markers: %s: overlap %q is not among this pin's plugins", marker.Writer, name)
			}
		}
	}

	return nil
}
