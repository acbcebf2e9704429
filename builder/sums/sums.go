// Package sums reads, writes and compares SHA256SUMS, the file that lists the SHA-256 of every other one in the
// output of a build and in a bundle.
package sums

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Name is the name of the file.
const Name = "SHA256SUMS"

// Sum is one line of it. Hex has no "sha256:".
type Sum struct{ Hex, Name string }

// Top is the file or directory that the file is, or is in.
func (s Sum) Top() string {
	top, _, _ := strings.Cut(s.Name, "/")

	return top
}

var line = regexp.MustCompile(`^([0-9a-f]{64})  (\S.*)$`)

// Parse reads what Encode and sha256sum write. Names must be clean relative paths, each there once.
func Parse(data []byte) ([]Sum, error) {
	var sums []Sum

	seen := make(map[string]bool)

	for i, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		match := line.FindStringSubmatch(text)
		if match == nil {
			return nil, fmt.Errorf("%s: line %d is not a sum and a name", Name, i+1)
		}

		name := match[2]

		// Nor may a name be written in two ways.
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00\r") {
			return nil, fmt.Errorf("%s: line %d: %q is not a clean relative path", Name, i+1, name)
		}

		if seen[name] {
			return nil, fmt.Errorf("%s: line %d: %s is listed twice", Name, i+1, name)
		}

		seen[name] = true
		sums = append(sums, Sum{match[1], name})
	}

	return sums, nil
}

// Encode writes what `sha256sum -c` reads, sorted by name.
func Encode(sums []Sum) []byte {
	sorted := slices.SortedFunc(slices.Values(sums), func(a, b Sum) int { return strings.Compare(a.Name, b.Name) })

	var out bytes.Buffer

	for _, s := range slices.Compact(sorted) {
		fmt.Fprintf(&out, "%s  %s\n", s.Hex, s.Name)
	}

	return out.Bytes()
}
