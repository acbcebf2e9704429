package profiles

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxDocument bounds every YAML file that is decoded strictly; real ones are a few kilobytes.
const maxDocument = 1 << 20

// DecodeStrict decodes the single YAML document in data into v. An unknown or duplicate key, a
// value of the wrong type, an empty file and a second document are errors that name file, line and,
// where there is one, the key.
func DecodeStrict(file string, data []byte, v any) error {
	if len(data) > maxDocument {
		return fmt.Errorf("%s: %d bytes are more than such a file can have (limit %d)", file, len(data), maxDocument)
	}

	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}

	// A document of nothing but "---" or "null" holds as little as an empty file.
	if len(root.Content) == 0 || root.Content[0].ShortTag() == "!!null" {
		return fmt.Errorf("%s: the file is empty", file)
	}

	if key := nullKey(&root); key != nil {
		return fmt.Errorf("%s: line %d: key %q has no value: give it one or remove the line", file, key.Line, key.Value)
	}

	if err := checkTypes("", root.Content[0], reflect.TypeOf(v)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)

	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("%s: %s", file, explain(err))
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

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// checkTypes reports the first value whose YAML type is not the one its key has in Go. yaml.v3 by
// itself takes a number or a truth value for text, and cuts the fraction off a number.
func checkTypes(key string, node *yaml.Node, want reflect.Type) error {
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}

	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}

	// A type that reads its own text decides what it takes.
	if node.Kind == yaml.ScalarNode && reflect.PointerTo(want).Implements(textUnmarshaler) {
		return nil
	}

	var expected string

	switch want.Kind() {
	case reflect.Struct, reflect.Map:
		if node.Kind == yaml.MappingNode {
			return checkMapping(node, want)
		}

		expected = "a mapping"
	case reflect.Slice:
		if node.Kind == yaml.SequenceNode {
			for _, item := range node.Content {
				if err := checkTypes(key, item, want.Elem()); err != nil {
					return err
				}
			}

			return nil
		}

		expected = "a list"
	case reflect.Int, reflect.Int64:
		if node.ShortTag() == "!!int" && node.Decode(new(int64)) == nil {
			return nil
		}

		expected = "a whole number"
	case reflect.Bool:
		if node.ShortTag() == "!!bool" {
			return nil
		}

		expected = "true or false"
	default:
		switch node.ShortTag() {
		case "!!str":
			return nil
		case "!!int", "!!float", "!!bool", "!!timestamp":
			return fmt.Errorf("line %d: key %q must be text: put %s into quotes", node.Line, key, node.Value)
		}

		expected = "text"
	}

	if key == "" {
		return fmt.Errorf("line %d: the file must be %s, not %s", node.Line, expected, kindOf(node))
	}

	return fmt.Errorf("line %d: key %q must be %s, not %s", node.Line, key, expected, kindOf(node))
}

// checkMapping checks the values of the keys that a struct or map knows; the decoder reports the others.
func checkMapping(node *yaml.Node, want reflect.Type) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value

		// A merge would set keys without naming them.
		if node.Content[i].ShortTag() == "!!merge" {
			return fmt.Errorf("line %d: key %q merges another mapping: write its keys out", node.Content[i].Line, key)
		}

		value, known := fieldType(want, key)
		if !known {
			continue
		}

		if err := checkTypes(key, node.Content[i+1], value); err != nil {
			return err
		}
	}

	return nil
}

// fieldType returns the type that yaml.v3 decodes the value of a key into.
func fieldType(structure reflect.Type, key string) (reflect.Type, bool) {
	if structure.Kind() == reflect.Map {
		return structure.Elem(), true
	}

	for i := range structure.NumField() {
		field := structure.Field(i)

		switch field.Tag.Get("yaml") {
		case key:
			return field.Type, true
		case ",inline":
			if inner, ok := fieldType(field.Type, key); ok {
				return inner, true
			}
		}
	}

	return nil, false
}

func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return strconv.Quote(node.Value)
	}
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.+) not found in type .*$`)
	duplicateKey = regexp.MustCompile(`^line (\d+): mapping key "?(.+?)"? already defined at line (\d+)$`)
)

// explain turns the first of yaml.v3's messages, which speak of Go types, into one that speaks of keys.
func explain(err error) string {
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

	return message
}
