// Package profiles holds what cnibake builds and for whom, as data: pins (an upstream release and
// every sum it is held to) and profiles (a target description). Both are YAML, embedded here or
// given by the user, and decoded strictly either way. A new profile or pin is a new file, no code.
package profiles

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed pins/*.yaml
var pinFiles embed.FS

//go:embed profiles/*.yaml
var profileFiles embed.FS

// License is the licence text of the plugins (Apache-2.0), which travels with every artifact.
// It is the LICENSE file of the pinned upstream module, unchanged.
//
//go:embed pins/LICENSE
var License []byte

// Architectures returns the architectures plugins can be built for, in Go's names.
func Architectures() []string {
	return []string{"amd64", "arm", "arm64"}
}

// builtin returns the names of the embedded YAML files of a directory, without their ending, sorted.
func builtin(files embed.FS, dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // the directory is compiled in
	}

	var names []string

	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}

	slices.Sort(names)

	return names
}

// isFile tells a file name from the name of something built in.
func isFile(argument string) bool {
	return strings.ContainsRune(argument, os.PathSeparator) || path.Ext(argument) == ".yaml" || path.Ext(argument) == ".yml"
}

// readFile reads a user's YAML file, which must be a regular file of at most maxDocument bytes.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}

	// A FIFO would block for ever.
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return io.ReadAll(io.LimitReader(file, maxDocument+1))
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
