package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxDocument bounds every YAML file this package reads; real ones are a few kilobytes.
const maxDocument = 1 << 20

// decodeStrict decodes the single YAML document in data into v. An unknown or duplicate key, a
// value of the wrong type, an empty file and a second document are errors that name file, line and,
// where there is one, the key.
func decodeStrict(file string, data []byte, v any) error {
	if len(data) > maxDocument {
		return fmt.Errorf("%s: %d bytes are more than a profile or pin can have (limit %d)", file, len(data), maxDocument)
	}

	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}

	if len(root.Content) == 0 {
		return fmt.Errorf("%s: the file is empty", file)
	}

	if key := nullKey(&root); key != nil {
		return fmt.Errorf("%s: line %d: key %q has no value: give it one or remove the line", file, key.Line, key.Value)
	}

	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)

	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("%s: %s", file, explain(err, &root))
	}

	// yaml.v3 stops silently after the first document.
	var second yaml.Node

	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("%s: after the first document: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	default:
		return fmt.Errorf("%s: line %d: a second YAML document starts here: one file holds one", file, second.Line)
	}
}

// nullKey returns the first mapping key without a value, which yaml.v3 would take for "not set".
func nullKey(node *yaml.Node) *yaml.Node {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && child.Kind == yaml.ScalarNode && child.Tag == "!!null" {
			return node.Content[i-1]
		}

		if key := nullKey(child); key != nil {
			return key
		}
	}

	return nil
}

var (
	unknownField  = regexp.MustCompile(`^line (\d+): field (.+) not found in type .*$`)
	duplicateKey  = regexp.MustCompile(`^line (\d+): mapping key "?(.+?)"? already defined at line (\d+)$`)
	wrongType     = regexp.MustCompile("^line (\\d+): cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.+)$")
	yamlTypeNames = map[string]string{"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "seq": "a list", "map": "a mapping"}
)

// explain turns the first of yaml.v3's messages, which speak of Go types, into one that speaks of keys.
func explain(err error, root *yaml.Node) string {
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) || len(typeError.Errors) == 0 {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}

	message := typeError.Errors[0]

	if m := unknownField.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("line %s: unknown key %q", m[1], m[2])
	}

	if m := duplicateKey.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("line %s: key %q is already set in line %s", m[1], m[2], m[3])
	}

	if m := wrongType.FindStringSubmatch(message); m != nil {
		line, _ := strconv.Atoi(m[1])

		return fmt.Sprintf("line %d: key %q cannot be %s", line, keyAt(root, line), yamlTypeNames[m[2]])
	}

	return message
}

// keyAt returns the innermost key whose value starts in the line.
func keyAt(node *yaml.Node, line int) string {
	var key string

	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && (child.Line == line || node.Content[i-1].Line == line) {
			key = node.Content[i-1].Value
		}

		if inner := keyAt(child, line); inner != "" {
			key = inner
		}
	}

	return key
}
