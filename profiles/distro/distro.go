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

// Distro is what is known of one node distribution. Paths are the node's, absolute and clean.
type Distro struct {
	Name string `json:"name"`
	// BinDir is the directory in which the runtime looks for plugins.
	BinDir string `json:"binDir"`
	// FormerBinDirs are where earlier releases looked, and where nothing looks today.
	FormerBinDirs []string `json:"formerBinDirs,omitempty"`
	// LinkDir is the directory into which symlinks in BinDir lead, itself above BinDir: whoever
	// resolves plugins in a container needs it there too, at the same path.
	LinkDir string `json:"linkDir,omitempty"`
	// OverlayUpper is the upper directory of the writable overlay that BinDir lies on.
	OverlayUpper string `json:"overlayUpper,omitempty"`
	// ConfDir is the directory of the CNI network configuration.
	ConfDir string `json:"confDir"`
	// PlatformOwned are the plugin names the distribution ships itself, sorted.
	PlatformOwned []string `json:"platformOwned,omitempty"`
	// Capabilities are what a container needs to write to BinDir, in Kubernetes' spelling; where
	// root owns the directory, none.
	Capabilities []string `json:"capabilities,omitempty"`
	// KubeletDir is the kubelet's root directory.
	KubeletDir string `json:"kubeletDir"`
	// KubeletInContainer says that the kubelet sees only part of the node's file system, so that it
	// cannot look whether a hostPath is there: such volumes must not have a type.
	KubeletInContainer bool `json:"kubeletInContainer,omitempty"`
	// NetNSDir is where Multus has to find the pods' network namespaces.
	NetNSDir string `json:"netnsDir"`
	// NoManifest says, where a Kubernetes manifest of ours would be of no use, why, and what to do instead.
	NoManifest string `json:"noManifest,omitempty"`
	// Note says what a person should know before writing to BinDir.
	Note string `json:"note,omitempty"`
	// Sources say where every one of these facts comes from.
	Sources []Source `json:"sources"`
}

// Source is where facts were read.
type Source struct {
	// Facts are the keys that it vouches for, as they are spelled in distros.json.
	Facts []string `json:"facts"`
	Where string   `json:"where"`
	// Date is the month of reading, YYYY-MM.
	Date string `json:"date"`
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
