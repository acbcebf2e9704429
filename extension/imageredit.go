package extension

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// AddToImagerProfile adds an extension to the text of an imager profile and leaves every other byte as it
// was: comments, anchors, order, flow style. An entry with the same path or the same repository is
// replaced. Whatever comes out is decoded again and compared, so that an unforeseen style is an error
// and never a different profile.
func AddToImagerProfile(text []byte, asset ImagerAsset) ([]byte, error) {
	edited, err := addToProfile(text, asset)
	if err != nil {
		return nil, fmt.Errorf("adding to the profile: %w", err)
	}

	if err := checkEdit(text, edited, asset); err != nil {
		return nil, fmt.Errorf("adding to the profile: its style is beyond what can be edited safely (%w): write input.systemExtensions as a plain list", err)
	}

	return edited, nil
}

// ImagerProfileFacts is what the other flags would have said.
type ImagerProfileFacts struct {
	Talos string `yaml:"version"`
	Arch  string `yaml:"arch"`
}

// ReadImagerProfile returns what an existing profile says about release and architecture.
func ReadImagerProfile(text []byte) (ImagerProfileFacts, error) {
	var facts ImagerProfileFacts

	if err := yaml.Unmarshal(text, &facts); err != nil {
		return facts, fmt.Errorf("reading profile: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}

	return facts, nil
}

const (
	keyInput      = "input"
	keyExtensions = "systemExtensions"
)

func addToProfile(text []byte, asset ImagerAsset) ([]byte, error) {
	document, err := parseDocument(text)
	if err != nil {
		return nil, err
	}

	e := newEditor(text)
	root := document.Content[0]

	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a profile is a mapping", root.Line)
	}

	input, err := e.child(root, keyInput)
	if err != nil {
		return nil, err
	}

	if isNull(input) {
		return e.insertEntry(root, keyInput, input, []string{keyExtensions}, asset)
	}

	if input.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: %s is not a mapping", input.Line, keyInput)
	}

	list, err := e.child(input, keyExtensions)
	if err != nil {
		return nil, err
	}

	switch {
	case isNull(list):
		return e.insertEntry(input, keyExtensions, list, nil, asset)
	case list.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: %s is not a list", list.Line, keyExtensions)
	}

	if old := findSame(list, asset); old != nil {
		return e.replaceScalar(old, asset.value())
	}

	return e.appendItem(list, asset)
}

func parseDocument(text []byte) (*yaml.Node, error) {
	var document yaml.Node

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}

	if len(document.Content) == 0 {
		return nil, errors.New("the profile is empty")
	}

	return &document, nil
}

func isNull(node *yaml.Node) bool {
	return node == nil || node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// findSame returns the value of the entry that the asset replaces: the same path, or an image of the same
// repository.
func findSame(list *yaml.Node, asset ImagerAsset) *yaml.Node {
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			continue
		}

		for i := 0; i+1 < len(item.Content); i += 2 {
			value := item.Content[i+1]
			if item.Content[i].Value == asset.key() && value.Kind == yaml.ScalarNode && sameSource(asset.key(), value.Value, asset.value()) {
				return value
			}
		}
	}

	return nil
}

func sameSource(key, a, b string) bool {
	if key != "imageRef" {
		return a == b
	}

	return repository(a) == repository(b)
}

// repository cuts tag and digest off a reference.
func repository(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")

	if i := strings.LastIndexByte(reference, ':'); i > strings.LastIndexByte(reference, '/') {
		reference = reference[:i]
	}

	return reference
}

// checkEdit decodes both texts and compares what they say.
func checkEdit(before, after []byte, asset ImagerAsset) error {
	var was, is map[string]any

	if err := yaml.Unmarshal(before, &was); err != nil {
		return err
	}

	if err := yaml.Unmarshal(after, &is); err != nil {
		return err
	}

	input, ok := is[keyInput].(map[string]any)
	if !ok {
		return errors.New("there is no input afterwards")
	}

	oldInput, _ := was[keyInput].(map[string]any)
	oldList, _ := oldInput[keyExtensions].([]any)
	wanted := withAsset(oldList, asset)

	if got, _ := input[keyExtensions].([]any); !reflect.DeepEqual(got, wanted) {
		return errors.New("the list of extensions is not what was meant")
	}

	// Everything else has to be equal.
	delete(input, keyExtensions)
	delete(oldInput, keyExtensions)

	if len(oldInput) == 0 && len(input) == 0 {
		delete(is, keyInput)
		delete(was, keyInput)
	}

	if !reflect.DeepEqual(was, is) {
		return errors.New("something else has changed")
	}

	return nil
}

func withAsset(list []any, asset ImagerAsset) []any {
	wanted := make([]any, 0, len(list)+1)
	replaced := false

	for _, item := range list {
		entry, ok := item.(map[string]any)
		value, isText := entry[asset.key()].(string)

		if ok && isText && !replaced && sameSource(asset.key(), value, asset.value()) {
			copied := make(map[string]any, len(entry))
			for k, v := range entry {
				copied[k] = v
			}

			copied[asset.key()] = asset.value()
			item, replaced = copied, true
		}

		wanted = append(wanted, item)
	}

	if !replaced {
		wanted = append(wanted, map[string]any{asset.key(): asset.value()})
	}

	return wanted
}

// blockScalar writes a value as it stands in a list of lines, flowScalar within brackets.
func blockScalar(value string) string {
	out, err := yaml.Marshal(value)
	if err != nil || bytes.Count(out, []byte("\n")) != 1 {
		return quoted(value)
	}

	return strings.TrimSuffix(string(out), "\n")
}

func flowScalar(value string) string {
	if strings.ContainsAny(value, ",[]{}") {
		return quoted(value)
	}

	return blockScalar(value)
}

// quoted uses that JSON's strings are YAML's.
func quoted(value string) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string can always be encoded
	}

	return string(out)
}
