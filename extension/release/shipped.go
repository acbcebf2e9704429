package release

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Shipped is what one source says about a node image, or about one of several nodes.
type Shipped struct {
	// Source is what the user named.
	Source string
	// Kind of source, such as "imager profile".
	Kind string
	// Writer is empty when the source does not tell it.
	Writer string
	// Release of the writer; empty when the source does not tell it.
	Release string
	// Plugins is the version that the source itself states; empty to look the release up.
	Plugins string
	// Image is the image reference that the release was taken from, if any.
	Image string
	// Why says why there is no release.
	Why string
	// Evidence of the release and of the version.
	Evidence []Evidence
	// Notes are what was odd about the source.
	Notes []string
}

// Evidence is one statement and where it was read.
type Evidence struct {
	Says string `json:"says"`
	From string `json:"from"`
}

func (e Evidence) String() string { return e.Says + " (" + e.From + ")" }

// ErrUnrecognised says that a text is nothing of what Recognise knows.
var ErrUnrecognised = errors.New("not recognised")

// recognised lists what Recognise knows, for messages.
const recognised = "a version, an image reference, an imager profile, a Talos machine configuration, the output of talosctl version " +
	"or talosctl get version, kube-ovn values, a Pkgfile, a Dockerfile with CNI_PLUGINS_VERSION, or an SPDX document"

// ShippedVersion is the statement "this release", without any file.
func ShippedVersion(source string) (Shipped, error) {
	release, err := parseVersion(source)
	if err != nil {
		return Shipped{}, err
	}

	return Shipped{Source: source, Kind: "version", Release: release, Evidence: []Evidence{{"release " + release, "the argument"}}}, nil
}

// Recognise reads what a text states, by what it contains rather than by what its file is called. One text
// can speak of several nodes.
func Recognise(source string, data []byte) ([]Shipped, error) {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))

	switch {
	case len(trimmed) == 0:
		return nil, fmt.Errorf("%s: the text is empty", source)
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		return nil, fmt.Errorf("%s: %w: not a text", source, ErrUnrecognised)
	}

	if trimmed[0] == '{' {
		return stamp(source)(recogniseJSON(trimmed))
	}

	if len(data) > maxText {
		return nil, fmt.Errorf("%s: %d bytes are more than such a text can have (limit %d)", source, len(data), maxText)
	}

	if !bytes.ContainsAny(trimmed, "\r\n") {
		if shipped, ok := recogniseLine(string(trimmed)); ok {
			return stamp(source)([]Shipped{shipped}, nil)
		}
	}

	if isTalosctlVersion(trimmed) {
		return stamp(source)(talosctlVersion(string(trimmed)))
	}

	roots, yamlErr := documents(trimmed)
	if yamlErr == nil {
		all, err := recogniseDocuments(roots)
		if err != nil || len(all) > 0 {
			return stamp(source)(all, err)
		}
	}

	if shipped, ok, err := dockerfile(string(trimmed)); ok || err != nil {
		return stamp(source)([]Shipped{shipped}, err)
	}

	if yamlErr != nil {
		return nil, fmt.Errorf("%s: %w as %s: %w", source, ErrUnrecognised, recognised, yamlErr)
	}

	return nil, fmt.Errorf("%s: %w as %s", source, ErrUnrecognised, recognised)
}

// stamp puts the source's name on what was read from it.
func stamp(source string) func([]Shipped, error) ([]Shipped, error) {
	return func(all []Shipped, err error) ([]Shipped, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}

		for i := range all {
			all[i].Source = source
		}

		return all, nil
	}
}

// recogniseLine reads a text of one line: a version or an image reference.
func recogniseLine(line string) (Shipped, bool) {
	if shipped, err := ShippedVersion(line); err == nil {
		shipped.Evidence[0].From = "the text"

		return shipped, true
	}

	if shipped, err := ParseReference(line); err == nil && shipped.Writer != "" {
		return shipped, true
	}

	return Shipped{}, false
}

// documentRecognisers read one YAML document each. They return nothing for one that is not theirs.
var documentRecognisers = []func(*yaml.Node) ([]Shipped, error){
	versionResource, machineConfig, kubeOVNValues, pkgfile, imagerProfile,
}

func recogniseDocuments(roots []*yaml.Node) ([]Shipped, error) {
	var all []Shipped

	for _, root := range roots {
		for _, recognise := range documentRecognisers {
			found, err := recognise(root)
			if err != nil {
				return nil, err
			}

			if len(found) > 0 {
				all = append(all, found...)

				break
			}
		}
	}

	return all, nil
}

// at names a place in a text.
func at(line int, what string) string {
	if line == 0 {
		return what
	}

	return fmt.Sprintf("line %d, %s", line, what)
}

// releaseOf fills in the release a source says.
func (s *Shipped) releaseOf(text string, from string) error {
	release, err := parseVersion(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	s.Release = release
	s.Evidence = append(s.Evidence, Evidence{"release " + release, from})

	return nil
}
