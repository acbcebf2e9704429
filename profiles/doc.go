// Package profiles holds what cnibake builds and for whom, as data: pins (an upstream release and
// every sum it is held to) and profiles (a target description). Both are YAML, embedded here or
// given by the user, and decoded strictly either way. A new profile or pin is a new file, no code.
package profiles

import (
	_ "embed"
	"maps"
	"slices"
)

// License is the licence text of the plugins (Apache-2.0), which travels with every artifact.
// It is the LICENSE file of the pinned upstream module, unchanged.
//
//go:embed pins/LICENSE
var License []byte

// Architectures returns the architectures plugins can be built for, in Go's names.
func Architectures() []string {
	return []string{"amd64", "arm", "arm64"}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
