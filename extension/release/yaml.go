package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Limits of a text that somebody hands us. A parsed value takes some hundred bytes, so the number of
// values is bounded as well as the size.
const (
	maxText       = 4 << 20
	maxSeparators = 200_000
	maxDocuments  = 1000
)

// countSeparators is at least the number of values in a YAML text, less one.
func countSeparators(data []byte) int {
	n := 0

	for _, b := range data {
		switch b {
		case '\n', '\r', ',', ':', '[', '{', '-', '?', '&', '*':
			n++
		}
	}

	return n
}

// documents returns the root values of all YAML documents in a text.
func documents(data []byte) ([]*yaml.Node, error) {
	if n := countSeparators(data); n > maxSeparators {
		return nil, fmt.Errorf("YAML with up to %d values, more than %d", n, maxSeparators)
	}

	var roots []*yaml.Node

	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node

		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}

		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}

		if len(roots) == maxDocuments {
			return nil, fmt.Errorf("more than %d YAML documents", maxDocuments)
		}

		if len(document.Content) > 0 {
			roots = append(roots, document.Content[0])
		}
	}
}

// child returns the value that the keys lead to, or nil.
func child(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		node = dereference(node)
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}

		var next *yaml.Node

		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = node.Content[i+1]

				break
			}
		}

		node = next
	}

	return dereference(node)
}

func dereference(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}

	return node
}

// text returns the scalar that the keys lead to, and its line; "" when there is none.
func text(node *yaml.Node, keys ...string) (string, int) {
	found := child(node, keys...)
	if found == nil || found.Kind != yaml.ScalarNode || found.ShortTag() == "!!null" {
		return "", 0
	}

	return strings.TrimSpace(found.Value), found.Line
}
