package release

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/semver"

	"github.com/cnibake/cnibake/profiles"
)

// writerFacts say what a writer puts into the CNI bin directory, and what that means for ours.
type writerFacts struct {
	// Title is the writer's name in sentences.
	Title string `yaml:"title"`
	// Names are the reference plugins it ships.
	Names []string `yaml:"names"`
	// Source says where the facts were read, and when.
	Source string `yaml:"source"`
	// Sentence is how a row's origin proves its version.
	Sentence string `yaml:"sentence"`
	// Find says where to look for a release that is not in the table.
	Find string `yaml:"find"`
	// Shapes say what happens on the node while versions differ.
	Shapes []shape `yaml:"shapes"`
	// LeaveOut is how to build without the overlap.
	LeaveOut string `yaml:"leaveOut"`
}

type shape struct {
	Shape  string `yaml:"shape"`
	Differ string `yaml:"differ"`
}

// Vulnerability is a known fault of a plugin.
type Vulnerability struct {
	ID      string `yaml:"id" json:"id"`
	Plugin  string `yaml:"plugin" json:"plugin"`
	Fixed   string `yaml:"fixed" json:"fixed"`
	Summary string `yaml:"summary" json:"summary"`
	Source  string `yaml:"source" json:"-"`
}

var loadWriters = sync.OnceValues(func() (map[string]writerFacts, error) {
	facts := make(map[string]writerFacts)

	return facts, decodeData("writers.yaml", &facts)
})

var loadVulnerabilities = sync.OnceValues(func() ([]Vulnerability, error) {
	var all []Vulnerability

	return all, decodeData("vulnerabilities.yaml", &all)
})

func decodeData(name string, v any) error {
	data, err := dataFiles.ReadFile("data/" + name)
	if err != nil {
		return err
	}

	return profiles.DecodeStrict("data/"+name, data, v)
}

// Vulnerabilities returns what is known to be wrong with a version of some plugins.
func Vulnerabilities(version string, plugins []string) ([]Vulnerability, error) {
	all, err := loadVulnerabilities()
	if err != nil {
		return nil, err
	}

	var found []Vulnerability

	for _, v := range all {
		if slices.Contains(plugins, v.Plugin) && semver.Compare(version, v.Fixed) < 0 {
			found = append(found, v)
		}
	}

	return found, nil
}

// PluginNames returns the reference plugins that a writer ships; nil for one that is not known.
func PluginNames(writer string) []string {
	facts, err := loadWriters()
	if err != nil {
		panic(err) // the data is compiled in and tested
	}

	return slices.Clone(facts[writer].Names)
}

func join(names []string) string { return strings.Join(names, ", ") }
