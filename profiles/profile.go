package profiles

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Profile describes one target: what is carried, where it goes and in which format.
type Profile struct {
	// Name begins the file names of everything built from the profile.
	Name        string `yaml:"name" json:"name"`
	Description string `yaml:"description" json:"description"`
	Format      Format `yaml:"format" json:"format"`

	// Architectures that are built unless others are asked for, in Go's names.
	Architectures []string `yaml:"architectures" json:"architectures"`
	// Plugins changes the pin's plugin set for this profile.
	Plugins     Selection   `yaml:"plugins" json:"plugins,omitzero"`
	Packaging   Packaging   `yaml:"packaging" json:"packaging"`
	Compression Compression `yaml:"compression" json:"compression"`

	// PluginDir is the absolute directory of the plugins inside the artifact.
	PluginDir string `yaml:"pluginDir" json:"pluginDir"`
	// Manifest is where the payload manifest goes; by default beside the plugins.
	Manifest string `yaml:"manifest" json:"manifest,omitempty"`
	// SharedFile is the file under which all plugins lie as one, when they are one program, instead
	// of a copy for each name; images only, since there the installer makes the copies.
	SharedFile string `yaml:"sharedFile" json:"sharedFile,omitempty"`
	// LicenseDir and SBOMDir take the licence text and the SBOM.
	LicenseDir string `yaml:"licenseDir" json:"licenseDir"`
	SBOMDir    string `yaml:"sbomDir" json:"sbomDir"`

	// Distro names the node distribution whose own plugins may overlap with ours.
	Distro string `yaml:"distro" json:"distro"`
	// Overlap says what happens to names the distribution ships itself.
	Overlap Overlap `yaml:"overlap" json:"overlap"`

	// Installer is where install-cni-plugins goes; archives and images only.
	Installer string `yaml:"installer" json:"installer,omitempty"`
	// Unit is where the systemd unit goes; archives only.
	Unit string `yaml:"unit" json:"unit,omitempty"`
	// Image is the repository that images and extensions are published as, without tag. It is the name in
	// an image's OCI archive and in bundles.
	Image string `yaml:"image" json:"image,omitempty"`
	// Extension holds what only Talos system extensions have.
	Extension *Extension `yaml:"extension" json:"extension,omitempty"`
	// Containerd, when set, adds a part of containerd's configuration; Talos only.
	Containerd *Containerd `yaml:"containerd" json:"containerd,omitempty"`
	// SELinux maps absolute paths to the label of the path and everything below it; the longest
	// match wins. Without it nothing is labelled.
	SELinux map[string]string `yaml:"selinux" json:"selinux,omitempty"`
}

// Format names an artifact format.
type Format string

// The formats cnibake writes.
const (
	FormatTalosExtension Format = "talos-extension"
	FormatArchive        Format = "archive"
	FormatImage          Format = "image"
)

// Packaging says how the plugins are linked.
type Packaging string

// Separate is one program for each plugin, as upstream does; Multicall is one program for all.
const (
	Separate  Packaging = "separate"
	Multicall Packaging = "multicall"
)

// Compression of a layer or archive.
type Compression string

// The compressions cnibake writes.
const (
	Zstd Compression = "zstd"
	Gzip Compression = "gzip"
	None Compression = "none"
)

// Overlap says what a profile does with names the distribution ships itself.
type Overlap string

// Replace carries them, so that ours are used; Omit leaves them out.
const (
	Replace Overlap = "replace"
	Omit    Overlap = "omit"
)

// Selection changes a plugin set.
type Selection struct {
	// With names plugins that the pin leaves out.
	With []string `yaml:"with" json:"with,omitempty"`
	// Without names plugins of the set that are not carried.
	Without []string `yaml:"without" json:"without,omitempty"`
}

// Extension is the metadata of a Talos system extension.
type Extension struct {
	// Name of the extension; Talos makes it the node label extensions.talos.dev/NAME.
	Name   string `yaml:"name" json:"name"`
	Author string `yaml:"author" json:"author"`
	// Talos is the range of compatible Talos versions, in the syntax of blang/semver.
	Talos string `yaml:"talos" json:"talos"`
}

// Containerd is a drop-in that makes containerd search several plugin directories.
type Containerd struct {
	// Part is the file Talos merges into the runtime's configuration.
	Part string `yaml:"part" json:"part"`
	// BinDirs is containerd's bin_dirs, searched in order.
	BinDirs []string `yaml:"binDirs" json:"binDirs"`
}

// Formats, packagings and compressions in the order messages list them.
var (
	formats      = []Format{FormatTalosExtension, FormatArchive, FormatImage}
	packagings   = []Packaging{Separate, Multicall}
	compressions = []Compression{Zstd, Gzip, None}
	overlaps     = []Overlap{Replace, Omit}
)

// ParseCompression returns the compression of that name.
func ParseCompression(name string) (Compression, error) {
	return oneOf("compression", Compression(name), compressions)
}

// ParsePackaging returns the packaging of that name.
func ParsePackaging(name string) (Packaging, error) {
	return oneOf("packaging", Packaging(name), packagings)
}

// Names returns the names of the built-in profiles, sorted.
func Names() []string {
	return builtin(profileFiles, "profiles")
}

// Source returns the YAML text of a built-in profile, or of the file that the argument names.
func Source(nameOrFile string) ([]byte, error) {
	_, data, err := read("profile", profileFiles, nameOrFile, Names())

	return data, err
}

// Load returns the built-in profile of that name, or the profile in the file that the argument
// names: an argument with a slash or ending in .yaml or .yml is a file.
func Load(nameOrFile string) (Profile, error) {
	file, data, err := read("profile", profileFiles, nameOrFile, Names())
	if err != nil {
		return Profile{}, err
	}

	return Parse(file, data)
}

// Parse decodes a profile strictly and checks it; file is used in messages only.
func Parse(file string, data []byte) (Profile, error) {
	var profile Profile
	if err := DecodeStrict(file, data, &profile); err != nil {
		return Profile{}, err
	}

	if err := profile.validate(); err != nil {
		return Profile{}, fmt.Errorf("%s: %w", file, err)
	}

	return profile, nil
}

func (p Profile) validate() error {
	if !namePattern.MatchString(p.Name) {
		return fmt.Errorf("name %q: use lower-case letters, digits and dashes", p.Name)
	}

	if err := p.validateChoices(); err != nil {
		return err
	}

	if err := p.validatePaths(); err != nil {
		return err
	}

	for _, name := range slices.Concat(p.Plugins.With, p.Plugins.Without) {
		if !namePattern.MatchString(name) {
			return fmt.Errorf("plugins: %q is not a plugin name", name)
		}
	}

	for _, labelled := range sortedKeys(p.SELinux) {
		label := p.SELinux[labelled]
		if !cleanAbsolute(labelled) {
			return fmt.Errorf("selinux: %q is not a clean absolute path", labelled)
		}

		if !labelPattern.MatchString(label) {
			return fmt.Errorf("selinux: %s: %q is not USER:ROLE:TYPE:LEVEL", labelled, label)
		}
	}

	return p.validateFormat()
}

func (p Profile) validateChoices() error {
	if _, err := oneOf("format", p.Format, formats); err != nil {
		return err
	}

	if _, err := oneOf("packaging", p.Packaging, packagings); err != nil {
		return err
	}

	if _, err := oneOf("compression", p.Compression, compressions); err != nil {
		return err
	}

	if _, err := oneOf("overlap", p.Overlap, overlaps); err != nil {
		return err
	}

	if p.Distro == "" {
		return errors.New("distro is missing: name the distribution whose own plugins may overlap, or generic")
	}

	if len(p.Architectures) == 0 {
		return errors.New("architectures is empty: name at least one")
	}

	return p.CheckArchitectures(p.Architectures)
}

// CheckArchitectures reports an architecture that the profile's nodes cannot have.
func (p Profile) CheckArchitectures(architectures []string) error {
	if p.Format == FormatTalosExtension && slices.Contains(architectures, "arm") {
		return errors.New(`unsupported architecture "arm": Talos has amd64 and arm64`)
	}

	return ValidateArchitectures(architectures)
}

// ValidateArchitectures reports an architecture plugins cannot be built for, or one given twice.
func ValidateArchitectures(architectures []string) error {
	for i, arch := range architectures {
		if !slices.Contains(Architectures(), arch) {
			return fmt.Errorf("unsupported architecture %q: use %s", arch, strings.Join(Architectures(), ", "))
		}

		if slices.Contains(architectures[:i], arch) {
			return fmt.Errorf("architecture %q is listed twice", arch)
		}
	}

	return nil
}

func (p Profile) validatePaths() error {
	required := map[string]string{"pluginDir": p.PluginDir, "licenseDir": p.LicenseDir, "sbomDir": p.SBOMDir}
	optional := map[string]string{"manifest": p.Manifest, "installer": p.Installer, "unit": p.Unit}

	if p.Containerd != nil {
		required["containerd.part"] = p.Containerd.Part

		if len(p.Containerd.BinDirs) == 0 {
			return errors.New("containerd.binDirs is empty: name the directories containerd searches")
		}

		for i, dir := range p.Containerd.BinDirs {
			required[fmt.Sprintf("containerd.binDirs[%d]", i)] = dir
		}

		// A part that leaves our own directory out would make the whole set invisible.
		if !slices.Contains(p.Containerd.BinDirs, p.PluginDir) {
			return fmt.Errorf("containerd.binDirs does not hold pluginDir %s: containerd would not find the plugins", p.PluginDir)
		}
	}

	for _, key := range sortedKeys(required) {
		if required[key] == "" {
			return fmt.Errorf("%s is missing", key)
		}
	}

	for _, paths := range []map[string]string{required, optional} {
		for _, key := range sortedKeys(paths) {
			if paths[key] != "" && (!cleanAbsolute(paths[key]) || paths[key] == "/") {
				return fmt.Errorf("%s %q is not a clean absolute path", key, paths[key])
			}
		}
	}

	return nil
}

// validateFormat checks what each format needs and refuses what it cannot have.
func (p Profile) validateFormat() error {
	type rule struct {
		key     string
		set     bool
		formats []Format
		needed  bool
	}

	rules := []rule{
		{"extension", p.Extension != nil, []Format{FormatTalosExtension}, true},
		{"containerd", p.Containerd != nil, []Format{FormatTalosExtension}, false},
		{"selinux", len(p.SELinux) > 0, []Format{FormatTalosExtension}, false},
		{"installer", p.Installer != "", []Format{FormatArchive, FormatImage}, true},
		{"unit", p.Unit != "", []Format{FormatArchive}, false},
		{"image", p.Image != "", []Format{FormatTalosExtension, FormatImage}, p.Format == FormatImage},
		{"sharedFile", p.SharedFile != "", []Format{FormatImage}, false},
	}

	for _, rule := range rules {
		applies := slices.Contains(rule.formats, p.Format)

		switch {
		case rule.set && !applies:
			return fmt.Errorf("key %q does not apply to format %s: remove it", rule.key, p.Format)
		case !rule.set && applies && rule.needed:
			return fmt.Errorf("key %q is missing: format %s needs it", rule.key, p.Format)
		}
	}

	if p.Format == FormatArchive && p.Unit != "" && !strings.HasSuffix(p.Unit, ".service") {
		return fmt.Errorf("unit %q does not end in .service", p.Unit)
	}

	if p.SharedFile != "" && !namePattern.MatchString(p.SharedFile) {
		return fmt.Errorf("sharedFile %q: use lower-case letters, digits and dashes", p.SharedFile)
	}

	if p.Image != "" && !imagePattern.MatchString(p.Image) {
		return fmt.Errorf("image %q is not REGISTRY/REPOSITORY without tag or digest", p.Image)
	}

	if p.Extension == nil {
		return nil
	}

	switch {
	case !namePattern.MatchString(p.Extension.Name):
		return fmt.Errorf("extension.name %q: use lower-case letters, digits and dashes (it becomes a node label)", p.Extension.Name)
	case p.Extension.Author == "":
		return errors.New("extension.author is missing")
	}

	// Before a space the library passes over what is no operator: "~ v1.13.0" would mean v1.13.0 alone.
	if strings.ContainsAny(p.Extension.Talos, "~^") {
		return fmt.Errorf(`extension.talos %q is not a version range like ">= v1.13.0": Talos knows neither ~ nor ^`, p.Extension.Talos)
	}

	// Talos drops the v of each version and leaves the rest to the same library.
	if _, err := semver.ParseRange(versionPrefix.ReplaceAllString(p.Extension.Talos, "$1")); err != nil {
		return fmt.Errorf(`extension.talos %q is not a version range like ">= v1.13.0": %w`, p.Extension.Talos, err)
	}

	return nil
}

var (
	labelPattern  = regexp.MustCompile(`^[a-z0-9_]+:[a-z0-9_]+:[a-z0-9_]+:s[0-9][a-z0-9:.,-]*$`)
	imagePattern  = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-][a-z0-9]+)*)+$`)
	versionPrefix = regexp.MustCompile(`v([0-9])`)
)

// cleanAbsolute reports whether a path is absolute, has no "." or "..", and could be a tar entry.
func cleanAbsolute(name string) bool {
	return path.IsAbs(name) && path.Clean(name) == name && !strings.ContainsAny(name, "\x00\n\\")
}

func oneOf[T ~string](key string, value T, choices []T) (T, error) {
	if slices.Contains(choices, value) {
		return value, nil
	}

	names := make([]string, len(choices))
	for i, choice := range choices {
		names[i] = string(choice)
	}

	return "", fmt.Errorf("%s %q is none of %s", key, value, strings.Join(names, ", "))
}
