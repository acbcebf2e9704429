// Package catalog makes and reads the catalogue image by which Image Factory knows the extensions of a
// Talos release.
//
// The image has two files. image-digests has a line REPOSITORY:TAG@sha256:... for each extension;
// descriptions.yaml maps exactly that line to author and description. Factory takes registry and
// namespace from its own configuration, and the rest of the repository is the name that schematics ask
// for (siderolabs/image-factory at 26b95ca, internal/artifacts/versions.go).
package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"gopkg.in/yaml.v3"
)

// Names of the files in the image.
const (
	digestsName      = "image-digests"
	descriptionsName = "descriptions.yaml"
)

// Catalogue is the content of a catalogue image. The zero value is an empty one.
type Catalogue struct {
	digests, descriptions []byte
}

// New returns the catalogue that consists of these two files.
func New(digests, descriptions []byte) *Catalogue {
	return &Catalogue{digests, descriptions}
}

// Files returns image-digests and descriptions.yaml.
func (c *Catalogue) Files() (digests, descriptions []byte) { return c.digests, c.descriptions }

// Entry is an extension in a catalogue.
type Entry struct {
	// Line is REPOSITORY:TAG@sha256:...
	Line        string `json:"image"`
	Author      string `json:"author"`
	Description string `json:"description"`
}

// described is an entry's value in descriptions.yaml.
type described struct {
	Author      string `yaml:"author"`
	Description string `yaml:"description"`
}

// Name is what schematics call the extension: its repository without the registry.
func (e Entry) Name() (string, error) {
	tag, err := e.tag()
	if err != nil {
		return "", err
	}

	return tag.RepositoryStr(), nil
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (e Entry) tag() (name.Tag, error) {
	tagged, digest, ok := strings.Cut(e.Line, "@")
	if !ok || !digestPattern.MatchString(digest) {
		return name.Tag{}, fmt.Errorf("%q is not of the form REPOSITORY:TAG@DIGEST", e.Line)
	}

	tag, err := name.NewTag(tagged, name.StrictValidation)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%q is not of the form REPOSITORY:TAG@DIGEST: %w", e.Line, err)
	}

	return tag, nil
}

// Entries returns what Image Factory finds in the catalogue: the lines in their order, each with the
// description under exactly its text. Lines without a digest mean nothing to it.
func (c *Catalogue) Entries() (entries []Entry, err error) {
	defer recoverAs(descriptionsName, &err)

	var descriptions map[string]described

	if err := yaml.NewDecoder(bytes.NewReader(c.descriptions)).Decode(&descriptions); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", descriptionsName, err)
	}

	for _, line := range strings.Split(string(c.digests), "\n") {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, "@") {
			continue
		}

		about := descriptions[line]
		entry := Entry{line, about.Author, about.Description}

		if _, err := entry.tag(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", digestsName, err)
		}

		entries = append(entries, entry)
	}

	return entries, nil
}

// Add appends an entry. Every byte that was there stays. An entry that is there already is not added
// twice, and another image of the same name is refused, since Factory would see two.
func (c *Catalogue) Add(entry Entry) error {
	added, err := entry.Name()
	if err != nil {
		return err
	}

	before, err := c.Entries()
	if err != nil {
		return err
	}

	for _, other := range before {
		if other == entry {
			return nil
		}

		if name, err := other.Name(); err != nil || name == added {
			return errors.Join(fmt.Errorf("the catalogue already lists %s: take one without it", other.Line), err)
		}
	}

	text, err := yaml.Marshal(map[string]described{entry.Line: {entry.Author, entry.Description}})
	if err != nil {
		return err
	}

	grown := Catalogue{appendLine(c.digests, []byte(entry.Line+"\n")), appendLine(c.descriptions, text)}

	// Text after a document's end, or after one in braces, would not be read as part of it.
	after, err := grown.Entries()
	if err != nil || !slices.Equal(after, append(before, entry)) {
		return errors.Join(fmt.Errorf("%s of the catalogue is not in a form that an entry can be appended to", descriptionsName), err)
	}

	*c = grown

	return nil
}

// appendLine appends text to a file whose last line may lack its end.
func appendLine(file, text []byte) []byte {
	grown := bytes.Clone(file)
	if len(grown) > 0 && grown[len(grown)-1] != '\n' {
		grown = append(grown, '\n')
	}

	return append(grown, text...)
}
