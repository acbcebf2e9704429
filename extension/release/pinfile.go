package release

import (
	"bytes"
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/cnibake/cnibake/profiles"
)

// isPin tells a pin file of ours by the keys that only a pin has together.
func isPin(data []byte) bool {
	if !bytes.Contains(data, []byte("goModSum")) || countSeparators(data) > maxSeparators {
		return false
	}

	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		return false
	}

	return child(root.Content[0], "module", "goModSum") != nil && child(root.Content[0], "plugins") != nil
}

func readPin(file string, data []byte) (Pinned, error) {
	pin, err := profiles.ParsePin(file, data)
	if err != nil {
		return Pinned{}, err
	}

	p := Pinned{File: file}
	p.fill(pin)

	if len(p.Markers) == 0 {
		return Pinned{}, fmt.Errorf("%s: no marker: list the writers it was compared with under markers", file)
	}

	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return Pinned{}, fmt.Errorf("%s: %w", file, err)
	}

	if version := child(root.Content[0], "version"); version != nil {
		p.Line = version.Line
	}

	markers := child(root.Content[0], "markers")
	if markers == nil || len(markers.Content) != len(p.Markers) {
		return Pinned{}, fmt.Errorf("%s: markers are not a plain list", file)
	}

	for i, item := range markers.Content {
		node := child(item, "release")
		if node == nil {
			return Pinned{}, fmt.Errorf("%s: line %d: the marker has no release", file, item.Line)
		}

		p.Markers[i].Line = node.Line
		p.Markers[i].start, p.Markers[i].end = place(data, node)
	}

	return p, nil
}

// place returns where a scalar's text stands in the file; start equals end when it is not there literally.
func place(data []byte, node *yaml.Node) (start, end int) {
	for line := 1; line < node.Line; line++ {
		i := bytes.IndexByte(data[start:], '\n')
		if i < 0 {
			return 0, 0
		}

		start += i + 1
	}

	text := data[start:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}

	// yaml counts characters; the value and its quotes are ASCII.
	column := len(string([]rune(string(text))[:min(node.Column-1, len([]rune(string(text))))]))

	i := bytes.Index(text[column:], []byte(node.Value))
	if i < 0 || node.Value == "" {
		return 0, 0
	}

	return start + column + i, start + column + i + len(node.Value)
}
