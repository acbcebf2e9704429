package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// document is one object of a manifest, and what has to be said about it.
type document struct {
	// file is its name in a kustomization.
	file   string
	object any
	header string
	// comments are what stands above fields.
	comments []comment
}

// comment stands above the field at a path of keys, indexes and names of list items: spec/containers/watch/ports.
type comment struct{ path, text string }

// encode returns the object as YAML. Keys have the order of Kubernetes' own types; what is null, empty or
// status is left out, because a patch would take it for a wish.
func (d document) encode() ([]byte, error) {
	data, err := json.Marshal(d.object)
	if err != nil {
		return nil, err
	}

	// JSON is YAML, and read as such it keeps the order of its keys.
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}

	object := root.Content[0]
	removeKey(object, "status")
	prune(object)
	restyle(object)
	kindSecond(object)

	for _, c := range d.comments {
		key, err := find(object, strings.Split(c.path, "/"))
		if err != nil {
			return nil, fmt.Errorf("commenting %s: %w", c.path, err)
		}

		key.HeadComment = wrap(c.text)
	}

	var out bytes.Buffer

	if d.header != "" {
		fmt.Fprintf(&out, "%s\n", wrap(d.header))
	}

	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)

	if err := encoder.Encode(object); err != nil {
		return nil, err
	}

	return out.Bytes(), encoder.Close()
}

// removeKey takes a key out of a mapping.
func removeKey(node *yaml.Node, name string) {
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			node.Content = slices.Delete(node.Content, i, i+2)

			return
		}
	}
}

// prune takes nulls and empty mappings out of a tree.
func prune(node *yaml.Node) {
	for _, child := range node.Content {
		prune(child)
	}

	if node.Kind != yaml.MappingNode {
		return
	}

	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		value := node.Content[i+1]
		if value.Tag == "!!null" || value.Kind == yaml.MappingNode && len(value.Content) == 0 {
			node.Content = slices.Delete(node.Content, i, i+2)
		}
	}
}

// restyle turns JSON's style into YAML's: blocks, and quotes only where they are needed.
func restyle(node *yaml.Node) {
	for _, child := range node.Content {
		restyle(child)
	}

	if node.Tag != "!!str" || node.Kind != yaml.ScalarNode {
		node.Style = 0

		return
	}

	// Kubernetes reads YAML by other rules than we write it: "on" is a boolean there.
	var read any
	if err := kubeyaml.Unmarshal([]byte(node.Value), &read); err == nil && read == node.Value {
		node.Style = 0
	} else if isLines(node.Value) {
		node.Style = yaml.LiteralStyle
	}
}

// isLines reports whether text can stand as a block of lines without its white space becoming another's.
func isLines(text string) bool {
	body, ended := strings.CutSuffix(text, "\n")
	if !ended || body == "" || body[0] == ' ' {
		return false
	}

	for line := range strings.SplitSeq(body, "\n") {
		if line == "" || strings.TrimRight(line, " ") != line || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return false
		}
	}

	return true
}

// kindSecond puts apiVersion before kind, as everybody writes them.
func kindSecond(object *yaml.Node) {
	if c := object.Content; len(c) >= 4 && c[0].Value == "kind" && c[2].Value == "apiVersion" {
		c[0], c[1], c[2], c[3] = c[2], c[3], c[0], c[1]
	}
}

// find returns the node of a key, or of an item of a list.
func find(node *yaml.Node, path []string) (*yaml.Node, error) {
	key := node

	for _, step := range path {
		var found bool

		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(node.Content) && !found; i += 2 {
				if node.Content[i].Value == step {
					key, node, found = node.Content[i], node.Content[i+1], true
				}
			}
		case yaml.SequenceNode:
			for _, item := range node.Content {
				if !found && isItem(item, step) {
					key, node, found = item, item, true
				}
			}
		}

		if !found {
			return nil, fmt.Errorf("there is no %s", step)
		}
	}

	return key, nil
}

// isItem reports whether a list item has that value or name.
func isItem(item *yaml.Node, value string) bool {
	if item.Kind == yaml.ScalarNode {
		return item.Value == value
	}

	for i := 0; i < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" && item.Content[i+1].Value == value {
			return true
		}
	}

	return false
}

// wrap makes a comment of text, with lines of at most 100 characters; lines that begin with a space stay as they are.
func wrap(text string) string {
	const width = 100

	var lines []string

	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line := "#"

		if paragraph == "" || paragraph[0] == ' ' {
			lines = append(lines, strings.TrimRight("# "+paragraph, " "))

			continue
		}

		for word := range strings.FieldsSeq(paragraph) {
			if len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = "#"
			}

			line += " " + word
		}

		lines = append(lines, line)
	}

	return strings.Join(lines, "\n")
}
