// Package payload is what travels from the build to a node: the manifest of a plugin set, and what
// a plugin file must be (an ELF program for the right machine that needs no interpreter). It is
// standard library only, because the installer that runs on nodes uses it.
package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// ManifestName is the manifest's file name where it lies beside the plugins.
const ManifestName = ".cni-plugins.json"

// SchemaVersion is the only manifest schema this package reads and writes.
const SchemaVersion = 1

// Limits of what a manifest may say, far above any real plugin set. They bound what a reader
// of an untrusted manifest can be made to allocate or copy.
const (
	MaxManifestSize = 1 << 20
	MaxPlugins      = 256
	MaxPluginSize   = 512 << 20
	// maxCommas bounds the values before they are decoded: two bytes of a list are enough to make
	// the decoder allocate a whole Plugin, whose five keys take as many commas.
	maxCommas = 8 * MaxPlugins
)

// Manifest lists a plugin set, for one architecture.
type Manifest struct {
	SchemaVersion int `json:"schemaVersion"`
	// Pin is the upstream release the set was made from.
	Pin Pin `json:"pin"`
	// Revision counts our own packagings of that release.
	Revision int `json:"revision"`
	// Arch is the architecture in Go's names.
	Arch string `json:"arch"`
	// Source says where the binaries came from: module, release, archive or directory.
	Source string `json:"source"`
	// Packaging is separate or multicall.
	Packaging string `json:"packaging"`
	// Unpinned is set when the binaries were taken although their sum is not the pin's.
	Unpinned bool `json:"unpinned,omitempty"`
	// Plugins are sorted by name.
	Plugins []Plugin `json:"plugins"`
}

// Pin identifies an upstream release.
type Pin struct {
	// Version is upstream's tag, for example v1.9.1.
	Version string `json:"version"`
	// Module is the Go module's path and Sum its h1: hash.
	Module string `json:"module"`
	Sum    string `json:"sum"`
}

// Plugin is one name and the file that is staged under it.
type Plugin struct {
	Name string `json:"name"`
	// File is the file's name beside the others; several names may share one file.
	File string `json:"file"`
	// Version is the module version in the binary's own build info, or the pin's where the
	// binary has none.
	Version string `json:"version"`
	// Digest is "sha256:" and 64 hexadecimal digits over the whole file.
	Digest string `json:"digest"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// Lookup returns the plugin of that name.
func (m Manifest) Lookup(name string) (Plugin, bool) {
	i := slices.IndexFunc(m.Plugins, func(p Plugin) bool { return p.Name == name })
	if i < 0 {
		return Plugin{}, false
	}

	return m.Plugins[i], true
}

// Names returns the plugin names, sorted.
func (m Manifest) Names() []string {
	names := make([]string, len(m.Plugins))
	for i, p := range m.Plugins {
		names[i] = p.Name
	}

	return names
}

// SamePin reports whether both sets were made from the same upstream release. A set whose
// binaries are not held to their pin's sums shares it with nothing.
func (m Manifest) SamePin(other Manifest) bool {
	return m.Pin == other.Pin && m.Arch == other.Arch && !m.Unpinned && !other.Unpinned
}

// Encode returns the manifest's JSON text; the same manifest always gives the same bytes.
func (m Manifest) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}

	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}

	return append(data, '\n'), nil
}

// ParseManifest decodes and checks a manifest. Unknown keys, other schema versions, names or files
// that are not plain file names, and sizes beyond the limits are errors.
func ParseManifest(data []byte) (Manifest, error) {
	if len(data) > MaxManifestSize {
		return Manifest{}, fmt.Errorf("manifest is larger than %d bytes", MaxManifestSize)
	}

	if bytes.Count(data, []byte(",")) > maxCommas {
		return Manifest{}, fmt.Errorf("manifest lists more than %d plugins", MaxPlugins)
	}

	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}

	if err := json.Unmarshal(data, &version); err != nil {
		return Manifest{}, fmt.Errorf("manifest is not valid JSON: %w", err)
	}

	if version.SchemaVersion != SchemaVersion {
		return Manifest{}, fmt.Errorf("manifest has schemaVersion %d, this program reads %d", version.SchemaVersion, SchemaVersion)
	}

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()

	var m Manifest
	if err := decoder.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("decoding manifest: %w", err)
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("manifest has more than one JSON value")
	}

	if err := m.validate(); err != nil {
		return Manifest{}, err
	}

	return m, nil
}

// ReadManifest reads and checks a manifest file, which must be a regular file.
func ReadManifest(name string) (Manifest, error) {
	// Lstat first: opening a FIFO would block for ever, and a symlink may point anywhere.
	info, err := os.Lstat(name)
	if err != nil {
		return Manifest{}, err
	}

	if !info.Mode().IsRegular() {
		return Manifest{}, fmt.Errorf("%s is not a regular file", name)
	}

	// It may be another one by now, which must not block either.
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return Manifest{}, err
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, MaxManifestSize+1))
	if err != nil {
		return Manifest{}, err
	}

	m, err := ParseManifest(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", name, err)
	}

	return m, nil
}

// Both by hand: package regexp would make the installer a sixteenth larger.

const lowerAlphanumeric = "0123456789abcdefghijklmnopqrstuvwxyz"

// ValidName reports whether a name can be a plugin's: a plain, visible file name of at most 64
// lower-case letters, digits, dots, underscores and dashes.
func ValidName(name string) bool {
	return name != "" && len(name) <= 64 && consistsOf(name[:1], lowerAlphanumeric) && consistsOf(name, lowerAlphanumeric+"._-")
}

// ValidDigest reports whether a digest has the form of Digester.Digest.
func ValidDigest(digest string) bool {
	hex, ok := strings.CutPrefix(digest, "sha256:")

	return ok && len(hex) == 64 && consistsOf(hex, "0123456789abcdef")
}

func consistsOf(s, bytes string) bool {
	return strings.Trim(s, bytes) == ""
}

func (m Manifest) validate() error {
	switch {
	case m.SchemaVersion != SchemaVersion:
		return fmt.Errorf("manifest has schemaVersion %d, this program writes %d", m.SchemaVersion, SchemaVersion)
	case len(m.Plugins) == 0:
		return errors.New("manifest lists no plugins")
	case len(m.Plugins) > MaxPlugins:
		return fmt.Errorf("manifest lists %d plugins, more than %d", len(m.Plugins), MaxPlugins)
	case m.Pin.Version == "":
		return errors.New("manifest has no pin version")
	}

	if _, ok := machines[m.Arch]; !ok {
		return fmt.Errorf("manifest has unsupported architecture %q", m.Arch)
	}

	files := make(map[string]Plugin)

	for i, p := range m.Plugins {
		shared, ok := files[p.File]
		files[p.File] = p

		switch {
		case !ValidName(p.Name):
			return fmt.Errorf("manifest: %q is not a plugin name", p.Name)
		case !ValidName(p.File):
			return fmt.Errorf("manifest: %s: %q is not a plain file name", p.Name, p.File)
		case !ValidDigest(p.Digest):
			return fmt.Errorf("manifest: %s: %q is not a sha256 digest", p.Name, p.Digest)
		case p.Size <= 0 || p.Size > MaxPluginSize:
			return fmt.Errorf("manifest: %s: size %d is not between 1 and %d", p.Name, p.Size, int64(MaxPluginSize))
		case i > 0 && strings.Compare(m.Plugins[i-1].Name, p.Name) >= 0:
			return fmt.Errorf("manifest: %s: plugins are not sorted or a name is listed twice", p.Name)
		case ok && (shared.Digest != p.Digest || shared.Size != p.Size):
			return fmt.Errorf("manifest: %s: file %s has another digest or size than for %s", p.Name, p.File, shared.Name)
		}
	}

	return nil
}
