package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of an SPDX document. Talos's own has some megabytes and about a thousand packages.
const (
	MaxSPDX         = 32 << 20
	maxSPDXPackages = 100_000
	maxSPDXPackage  = 1 << 20
)

// spdxPackage is what is read of a package; the rest of a document does not matter here.
type spdxPackage struct {
	Name         string `json:"name"`
	VersionInfo  string `json:"versionInfo"`
	ExternalRefs []struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	} `json:"externalRefs"`
}

// pluginsCPE is the part of a CPE that names the upstream project.
const pluginsCPE = ":containernetworking:plugins:"

func (p spdxPackage) isPlugins() bool {
	for _, ref := range p.ExternalRefs {
		if strings.Contains(ref.Locator, pluginsCPE) {
			return true
		}
	}

	return false
}

var (
	// ErrNoPlugins says that an SPDX document is about something else.
	ErrNoPlugins = errors.New("no package cni of containernetworking:plugins in it: the SBOM of a whole Talos release has one")
	// ErrNotSPDX says that a JSON text is no SPDX document that ReadSPDX knows.
	ErrNotSPDX = errors.New("not an SPDX document")
)

// ReadSPDX reads a Talos SBOM (SPDX 2.2 or 2.3 as JSON): the version of the package cni, and of Talos
// itself where the document names it. The document is read as a stream, package by package.
func ReadSPDX(r io.Reader) (Shipped, error) {
	reader := &spdxReader{decoder: json.NewDecoder(io.LimitReader(r, MaxSPDX+1)), shipped: Shipped{Kind: "SPDX document"}}

	if err := reader.document(); err != nil {
		return Shipped{}, fmt.Errorf("reading SPDX document: %w", err)
	}

	shipped := reader.shipped

	switch {
	case !strings.HasPrefix(reader.version, "SPDX-2."):
		return Shipped{}, fmt.Errorf("%w: version %q is not SPDX-2.x", ErrNotSPDX, shorten(reader.version))
	case shipped.Plugins == "":
		return Shipped{}, fmt.Errorf("reading SPDX document: %w", ErrNoPlugins)
	case shipped.Release == "":
		shipped.Why = "the document does not name a Talos release"
	}

	return shipped, nil
}

type spdxReader struct {
	decoder *json.Decoder
	version string
	shipped Shipped
}

var errNotObject = errors.New("not a JSON object")

func (s *spdxReader) document() error {
	if token, err := s.decoder.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(errNotObject, err)
	}

	for s.decoder.More() {
		key, err := s.decoder.Token()
		if err != nil {
			return err
		}

		switch key {
		case "spdxVersion":
			err = s.decoder.Decode(&s.version)
		case "packages":
			err = s.packages()
		default:
			err = skip(s.decoder)
		}

		if err != nil {
			return err
		}
	}

	_, err := s.decoder.Token()

	return err
}

func (s *spdxReader) packages() error {
	if token, err := s.decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.Join(errors.New("packages is not a list"), err)
	}

	for n := 0; s.decoder.More(); n++ {
		if n == maxSPDXPackages {
			return fmt.Errorf("more than %d packages", maxSPDXPackages)
		}

		var raw json.RawMessage
		if err := s.decoder.Decode(&raw); err != nil {
			return err
		}

		if len(raw) > maxSPDXPackage {
			return fmt.Errorf("a package of %d bytes", len(raw))
		}

		var p spdxPackage
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}

		if err := s.take(p); err != nil {
			return err
		}
	}

	_, err := s.decoder.Token()

	return err
}

func (s *spdxReader) take(p spdxPackage) error {
	switch {
	case p.Name == "cni" && p.isPlugins():
		plugins, err := parseVersion(p.VersionInfo)
		if err != nil {
			return fmt.Errorf("package cni: %w", err)
		}

		if s.shipped.Plugins != "" && s.shipped.Plugins != plugins {
			return fmt.Errorf("two packages cni, %s and %s", s.shipped.Plugins, plugins)
		}

		if s.shipped.Plugins == "" {
			s.shipped.Plugins, s.shipped.Writer = plugins, Talos
			s.shipped.Evidence = append(s.shipped.Evidence, Evidence{"plugins " + plugins, "SPDX package cni"})
		}
	case strings.EqualFold(p.Name, "talos") && s.shipped.Release == "" && IsVersion(p.VersionInfo):
		return s.shipped.releaseOf(p.VersionInfo, "SPDX package "+p.Name)
	}

	return nil
}

// skip passes over one value without keeping it.
func skip(decoder *json.Decoder) error {
	// The decoder itself remembers every open bracket.
	const deepest = 1000

	depth := 0

	for {
		token, err := decoder.Token()
		if err != nil {
			return err
		}

		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}

		switch {
		case depth == 0:
			return nil
		case depth > deepest:
			return fmt.Errorf("more than %d brackets are open", deepest)
		}
	}
}

// recogniseJSON reads a text that starts with a brace: an SPDX document, or what talosctl prints.
func recogniseJSON(data []byte) ([]Shipped, error) {
	if len(data) > MaxSPDX {
		return nil, fmt.Errorf("%d bytes are more than a JSON text can have (limit %d)", len(data), MaxSPDX)
	}

	if isSPDX(data) {
		shipped, err := ReadSPDX(bytes.NewReader(data))

		return []Shipped{shipped}, err
	}

	if len(data) > maxText {
		return nil, fmt.Errorf("%d bytes are more than such a text can have (limit %d)", len(data), maxText)
	}

	var all []Shipped

	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		var raw json.RawMessage

		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnrecognised, err)
		}

		if len(all) > maxDocuments {
			return nil, fmt.Errorf("more than %d JSON values", maxDocuments)
		}

		// Compact JSON is YAML; tabs between values are not.
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return nil, err
		}

		roots, err := documents(compact.Bytes())
		if err != nil {
			return nil, err
		}

		found, err := recogniseDocuments(roots)
		if err != nil {
			return nil, err
		}

		all = append(all, found...)
	}

	if len(all) == 0 {
		return nil, fmt.Errorf("%w as %s", ErrUnrecognised, recognised)
	}

	return all, nil
}

// isSPDX looks for the key that every SPDX document has at its top.
func isSPDX(data []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return false
	}

	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return false
		}

		if key == "spdxVersion" {
			return true
		}

		if err := skip(decoder); err != nil {
			return false
		}
	}

	return false
}
