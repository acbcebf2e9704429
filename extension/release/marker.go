package release

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cnibake/cnibake/profiles"
)

// maxMarkerFile bounds a file that markers are read from, in bytes; real ones have a few thousand.
const maxMarkerFile = 1 << 20

// Marker says which release of a writer the pin was last compared with.
type Marker struct {
	Writer  string
	Release string
	// Line is where the marker stands, from 1; 0 for the built-in pin.
	Line int
	// start and end enclose the release in the file.
	start, end int
}

// Pinned is our side of a comparison: the pin and its markers.
type Pinned struct {
	// File is where it was read from, or a description of the built-in pin.
	File string
	// BuiltIn is set for a pin that is compiled in and so cannot be changed.
	BuiltIn bool
	// Version of the plugins, and the line that says so.
	Version string
	Line    int
	// Markers in the order of the file, one a writer.
	Markers []Marker
	// Plugins are the names the pin carries; nil when the file does not say.
	Plugins []string
}

// Marker returns the marker for a writer.
func (p Pinned) Marker(writer string) (Marker, bool) {
	i := slices.IndexFunc(p.Markers, func(m Marker) bool { return m.Writer == writer })
	if i < 0 {
		return Marker{}, false
	}

	return p.Markers[i], true
}

// Writers returns the writers that there are markers for.
func (p Pinned) Writers() []string {
	writers := make([]string, len(p.Markers))
	for i, m := range p.Markers {
		writers[i] = m.Writer
	}

	return writers
}

// FromPin returns the built-in pin as one side of a comparison.
func FromPin(pin profiles.Pin) Pinned {
	p := Pinned{File: "built-in pin " + pin.Version, BuiltIn: true}
	p.fill(pin)

	return p
}

func (p *Pinned) fill(pin profiles.Pin) {
	p.Version = pin.Version

	for _, plugin := range pin.Plugins {
		p.Plugins = append(p.Plugins, plugin.Name)
	}

	for _, m := range pin.Markers {
		p.Markers = append(p.Markers, Marker{Writer: m.Writer, Release: m.Release})
	}
}

// ReadMarkers reads the pin and its markers from a file's content: from a pin file of ours, or from any
// text with comments like "# talos-cni-plugins-checked-against: v1.13.6" and an assignment of
// CNI_PLUGINS_VERSION.
func ReadMarkers(file string, data []byte) (Pinned, error) {
	switch {
	case len(data) > maxMarkerFile:
		return Pinned{}, fmt.Errorf("%s: %d bytes are more than a file with a marker can have (limit %d)", file, len(data), maxMarkerFile)
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		return Pinned{}, fmt.Errorf("%s: not a text file", file)
	case isPin(data):
		return readPin(file, data)
	default:
		return readText(file, data)
	}
}

// ReadMarkersFile is ReadMarkers for a file.
func ReadMarkersFile(name string) (Pinned, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}

	// A FIFO would block for ever.
	if !info.Mode().IsRegular() {
		return Pinned{}, fmt.Errorf("reading markers: %s is not a regular file", name)
	}

	file, err := os.Open(name)
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, maxMarkerFile+1))
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}

	return ReadMarkers(name, data)
}

var (
	// A comment that starts with the marker, alone in its line or behind code.
	markerLine = regexp.MustCompile(`(?:^|[ \t])(?:#|//|;|--|<!--)[ \t]*([A-Za-z0-9_-]*)-cni-plugins-checked-against\b[ \t]*[:=]?[ \t]*(.*)$`)
	// An assignment as Dockerfiles, YAML, Makefiles, shells and JSON write it. What follows $ is a use.
	assignment = regexp.MustCompile(`(?:^|[ \t"',;(]|^\{|[^$]\{)CNI_PLUGINS_VERSION["']?[ \t]*(?:\?=|::?=|=|:)[ \t]*(.*)$`)
	// The old form of ENV has no sign at all.
	oldENV  = regexp.MustCompile(`^[ \t]*(?i:ENV)[ \t]+CNI_PLUGINS_VERSION[ \t]+(.*)$`)
	comment = regexp.MustCompile(`^[ \t]*(?:#|//|;|--[ \t]|<!--)`)
	// value is the first word, quoted or not.
	value = regexp.MustCompile("^(?:\"([^\"]*)\"|'([^']*)'|([^ \t\"',;)}#]*))")
)

func readText(file string, data []byte) (Pinned, error) {
	p := Pinned{File: file}

	line := 0

	for start := 0; start <= len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
			end = start + i
		}

		line++

		if err := p.readLine(string(bytes.TrimSuffix(data[start:end], []byte("\r"))), line, start); err != nil {
			return Pinned{}, fmt.Errorf("%s: line %d: %w", file, line, err)
		}

		start = end + 1
	}

	switch {
	case len(p.Markers) == 0:
		return Pinned{}, fmt.Errorf("%s: no marker: add a comment like \"# talos-cni-plugins-checked-against: v1.13.6\"", file)
	case p.Version == "":
		return Pinned{}, fmt.Errorf("%s: there is a marker, but no pin: add an assignment like CNI_PLUGINS_VERSION=%s", file, profiles.DefaultPin)
	}

	return p, nil
}

// readLine takes what one line says; offset is where it starts in the file.
func (p *Pinned) readLine(text string, line, offset int) error {
	if m := markerLine.FindStringSubmatchIndex(text); m != nil {
		if err := p.addMarker(text[m[2]:m[3]], text, m[4], line, offset); err != nil {
			return err
		}

		// What stands before the comment may be the assignment.
		text = text[:m[0]]
	}

	if comment.MatchString(text) {
		return nil
	}

	m := assignment.FindStringSubmatch(text)
	if m == nil {
		m = oldENV.FindStringSubmatch(text)
	}

	if m == nil {
		return nil
	}

	found, _, _ := firstWord(m[1])

	switch {
	case strings.HasPrefix(found, "$"):
		// The value of another variable.
		return nil
	case found == "":
		return fmt.Errorf("CNI_PLUGINS_VERSION is empty: give it the version of the plugins, such as %s", profiles.DefaultPin)
	}

	version, err := parseVersion(found)
	if err != nil {
		return fmt.Errorf("CNI_PLUGINS_VERSION %w", err)
	}

	if p.Version != "" && p.Version != version {
		return fmt.Errorf("CNI_PLUGINS_VERSION is %s, but %s in line %d: decide for one", version, p.Version, p.Line)
	}

	if p.Version == "" {
		p.Version, p.Line = version, line
	}

	return nil
}

// addMarker takes a marker whose value starts at text[at:].
func (p *Pinned) addMarker(writer, text string, at, line, offset int) error {
	if !writerPattern.MatchString(writer) {
		return fmt.Errorf("marker for %q: a writer's name is lower-case letters, digits and dashes, such as talos", shorten(writer))
	}

	found, start, end := firstWord(text[at:])
	if found == "" {
		return fmt.Errorf("the marker for %s is empty: write the release the pin was last compared with, such as v1.13.6", writer)
	}

	release, err := parseVersion(found)
	if err != nil {
		return fmt.Errorf("the marker for %s: %w", writer, err)
	}

	if m, ok := p.Marker(writer); ok {
		if m.Release != release {
			return fmt.Errorf("the marker for %s is %s, but %s in line %d: keep one", writer, release, m.Release, m.Line)
		}

		return fmt.Errorf("the marker for %s stands in line %d already: keep one", writer, m.Line)
	}

	p.Markers = append(p.Markers, Marker{
		Writer: writer, Release: release, Line: line,
		start: offset + at + start, end: offset + at + end,
	})

	return nil
}

// firstWord returns the first word of a text without its quotes, and where it stands.
func firstWord(text string) (word string, start, end int) {
	m := value.FindStringSubmatchIndex(text)
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			return text[m[i]:m[i+1]], m[i], m[i+1]
		}
	}

	return "", 0, 0
}
