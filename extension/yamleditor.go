package extension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// editor changes the text of a profile at the places that its nodes name.
type editor struct {
	text []byte
	// starts holds the offset of each line.
	starts []int
	// newline is the file's own line ending.
	newline string
	// json is set for a profile that is JSON, and stays so.
	json bool
}

func newEditor(text []byte) *editor {
	e := &editor{text: text, starts: []int{0}, newline: "\n", json: json.Valid(text)}

	for i, b := range text {
		if b == '\n' {
			e.starts = append(e.starts, i+1)
		}
	}

	if bytes.Contains(text, []byte("\r\n")) {
		e.newline = "\r\n"
	}

	return e
}

// child returns the value of a key, nil when it is not there. A value that comes from an anchor cannot be
// changed here without changing it elsewhere.
func (e *editor) child(mapping *yaml.Node, key string) (*yaml.Node, error) {
	var found *yaml.Node

	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := mapping.Content[i], mapping.Content[i+1]

		switch {
		case name.Value == key && value.Kind == yaml.AliasNode:
			return nil, fmt.Errorf("line %d: %s is *%s: add the extension where that anchor stands", value.Line, key, value.Value)
		case name.Value == key:
			found = value
		case name.Tag == "!!merge" && mergesKey(value, key, 0):
			return nil, fmt.Errorf("line %d: %s is merged in from an anchor: write it out here", name.Line, key)
		}
	}

	return found, nil
}

// mergesKey reports whether << brings a key along. An anchor may hold itself, so the depth is bounded.
func mergesKey(value *yaml.Node, key string, depth int) bool {
	const deepest = 8
	if depth > deepest {
		return false
	}

	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}

	for i, inner := range value.Content {
		switch {
		case value.Kind == yaml.SequenceNode && mergesKey(inner, key, depth+1):
			return true
		case value.Kind == yaml.MappingNode && i%2 == 0 && inner.Value == key:
			return true
		case value.Kind == yaml.MappingNode && i%2 == 1 && value.Content[i-1].Tag == "!!merge" && mergesKey(inner, key, depth+1):
			return true
		}
	}

	return false
}

// insertEntry gives a mapping an entry for the key, or fills in the one whose value is null. inner names
// mappings between the key and the list.
func (e *editor) insertEntry(mapping *yaml.Node, key string, null *yaml.Node, inner []string, asset ImagerAsset) ([]byte, error) {
	flow := "[" + e.flowItem(asset) + "]"
	for i := len(inner) - 1; i >= 0; i-- {
		flow = "{" + e.flowKey(inner[i]) + ": " + flow + "}"
	}

	name := keyNode(mapping, key)

	switch {
	case mapping.Style&yaml.FlowStyle != 0 && null != nil && null.Value != "":
		return e.splice(e.offset(null), len(null.Value), flow), nil
	case mapping.Style&yaml.FlowStyle != 0 && null != nil:
		return nil, fmt.Errorf("line %d: %s has no value: remove it", name.Line, key)
	case mapping.Style&yaml.FlowStyle != 0:
		return e.appendFlow(mapping, e.flowKey(key)+": "+flow)
	// A value that is spelt out, with an anchor or a tag, keeps its place.
	case null != nil && (null.Value != "" || null.Anchor != ""):
		if null.Value == "" || null.Anchor != "" {
			return nil, fmt.Errorf("line %d: %s has no value: remove it", name.Line, key)
		}

		return e.splice(e.offset(null), len(null.Value), flow), nil
	}

	column := mapping.Column
	if len(mapping.Content) > 0 {
		column = mapping.Content[0].Column
	}

	indent := strings.Repeat(" ", column-1)
	step := e.step(mapping)
	lines := []string{}

	if null == nil {
		lines = append(lines, indent+key+":")
	}

	for _, k := range inner {
		indent += step
		lines = append(lines, indent+k+":")
	}

	lines = append(lines, indent+step+"- "+asset.key()+": "+blockScalar(asset.value()))

	after := lastLine(mapping)

	if null != nil {
		after = name.Line
	}

	return e.insertLines(e.blockEnd(after, column), lines), nil
}

func keyNode(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i]
		}
	}

	return nil
}

// step is how far the profile indents, as far as the mapping shows it.
func (e *editor) step(mapping *yaml.Node) string {
	for i := 1; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i-1], mapping.Content[i]
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && value.Line > key.Line && value.Column > key.Column {
			return strings.Repeat(" ", value.Column-key.Column)
		}
	}

	return "  "
}

// appendItem adds an item to a list.
func (e *editor) appendItem(list *yaml.Node, asset ImagerAsset) ([]byte, error) {
	if list.Style&yaml.FlowStyle != 0 {
		return e.appendFlow(list, e.flowItem(asset))
	}

	column, ok := e.dashColumn(list)
	if !ok {
		return nil, fmt.Errorf("line %d: the list has an unusual style", list.Line)
	}

	line := strings.Repeat(" ", column-1) + "- " + asset.key() + ": " + blockScalar(asset.value())

	return e.insertLines(e.blockEnd(lastLine(list), column), []string{line}), nil
}

// dashColumn returns the column of the dashes of a list that is not in brackets and so has at least one
// item. The list's own column is that of its anchor, if it has one.
func (e *editor) dashColumn(list *yaml.Node) (int, bool) {
	first := list.Content[0]

	for n := first.Line; n >= list.Line; n-- {
		content := e.line(n)
		if trimmed := strings.TrimLeft(content, " "); strings.HasPrefix(trimmed, "-") && len(content)-len(trimmed) < first.Column {
			return len(content) - len(trimmed) + 1, true
		}
	}

	return 0, false
}

// lastLine is the last line on which a node of the tree begins.
func lastLine(node *yaml.Node) int {
	last := node.Line

	for _, child := range node.Content {
		// An alias's own node stands here, the anchor's elsewhere.
		last = max(last, lastLine(child))
	}

	return last
}

// blockEnd returns the last line of a block whose entries begin in the column and whose last node begins
// on the line: what follows and is indented more belongs to it, comments at its end do not.
func (e *editor) blockEnd(line, column int) int {
	end := line

	for next := line + 1; next <= len(e.starts); next++ {
		content := e.line(next)
		trimmed := strings.TrimLeft(content, " ")

		if strings.TrimSpace(trimmed) == "" || trimmed[0] == '#' {
			continue
		}

		if len(content)-len(trimmed) < column {
			break
		}

		end = next
	}

	// A comment inside a block of text is text.
	for next := end + 1; next <= len(e.starts); next++ {
		content := e.line(next)
		if trimmed := strings.TrimLeft(content, " "); trimmed == "" || trimmed[0] != '#' || len(content)-len(trimmed) < column {
			break
		}

		end = next
	}

	return end
}

func (e *editor) line(n int) string {
	end := len(e.text)
	if n < len(e.starts) {
		end = e.starts[n]
	}

	return strings.TrimRight(string(e.text[e.starts[n-1]:end]), "\r\n")
}

// insertLines puts lines after a line.
func (e *editor) insertLines(after int, lines []string) []byte {
	text := strings.Join(lines, e.newline)

	if after < len(e.starts) {
		return e.splice(e.starts[after], 0, text+e.newline)
	}

	// The file's last line has no ending, and keeps having none.
	return e.splice(len(e.text), 0, e.newline+text)
}

// replaceScalar puts another value in the place of a scalar that stands on one line.
func (e *editor) replaceScalar(node *yaml.Node, value string) ([]byte, error) {
	if node.Value == value {
		return bytes.Clone(e.text), nil
	}

	start := e.offset(node)

	switch {
	case node.Anchor != "" || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0:
		return nil, fmt.Errorf("line %d: replace %q yourself: its style is not one that can be edited", node.Line, node.Value)
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return e.splice(start, skipQuoted(e.text, start)+1-start, quoted(value)), nil
	case !bytes.HasPrefix(e.text[start:], []byte(node.Value)):
		return nil, fmt.Errorf("line %d: replace %q yourself: it spans several lines", node.Line, node.Value)
	default:
		return e.splice(start, len(node.Value), flowScalar(value)), nil
	}
}

// offset returns where a node begins. yaml.v3 counts columns in characters.
func (e *editor) offset(node *yaml.Node) int {
	at := e.starts[node.Line-1]

	for range node.Column - 1 {
		_, size := utf8.DecodeRune(e.text[at:])
		at += size
	}

	return min(at, len(e.text))
}

// splice replaces some bytes.
func (e *editor) splice(at, length int, text string) []byte {
	out := make([]byte, 0, len(e.text)+len(text))
	out = append(out, e.text[:at]...)
	out = append(out, text...)

	return append(out, e.text[at+length:]...)
}
