// Package distro knows where node distributions keep their CNI plugins and which names they ship
// themselves. Facts are data, in distros.json, each row with its source and date; the package
// itself is standard library only, because the installer that runs on nodes uses it.
package distro

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Distro is what is known of one node distribution.
type Distro struct {
	Name string `json:"name"`
	// BinDir is the directory in which the runtime looks for plugins.
	BinDir string `json:"binDir"`
	// ConfDir is the directory of the CNI network configuration.
	ConfDir string `json:"confDir"`
	// PlatformOwned are the plugin names the distribution ships itself, sorted.
	PlatformOwned []string `json:"platformOwned,omitempty"`
	// Note says what a person should know before writing to BinDir.
	Note string `json:"note,omitempty"`
	// Source says where the facts come from, Date when they were read (YYYY-MM).
	Source string `json:"source"`
	Date   string `json:"date"`
}

// Owns reports whether the distribution ships a plugin of that name itself.
func (d Distro) Owns(name string) bool {
	return slices.Contains(d.PlatformOwned, name)
}

//go:embed distros.json
var data []byte

var table = sync.OnceValue(func() []Distro {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()

	var distros []Distro
	if err := decoder.Decode(&distros); err != nil {
		panic("distros.json: " + err.Error()) // compiled in, and held by a test
	}

	return distros
})

// All returns every known distribution, sorted by name.
func All() []Distro {
	return slices.Clone(table())
}

// Names returns the names of every known distribution, sorted.
func Names() []string {
	var names []string
	for _, d := range table() {
		names = append(names, d.Name)
	}

	return names
}

// Lookup returns the distribution of that name.
func Lookup(name string) (Distro, error) {
	for _, d := range table() {
		if d.Name == name {
			return d, nil
		}
	}

	return Distro{}, fmt.Errorf("unknown distribution %q: known are %s", name, strings.Join(Names(), ", "))
}
