package profiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnibake/cnibake/profiles"
)

// TestStrictDecoding holds the messages: each names the file, the line and, where there is one, the key.
func TestStrictDecoding(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ document, want string }{
		"unknown key":                {"name: x\ncolour: red\n", `my.yaml: line 2: unknown key "colour"`},
		"unknown key, nested":        {"plugins:\n  wiht: [dhcp]\n", `my.yaml: line 2: unknown key "wiht"`},
		"key of another letter case": {"Name: x\n", `my.yaml: line 1: unknown key "Name"`},
		"duplicate key":              {"name: x\nname: y\n", `my.yaml: line 2: key "name" is already set in line 1`},
		"duplicate key, nested":      {"extension:\n  name: a\n  name: b\n", `my.yaml: line 3: key "name" is already set in line 2`},
		"duplicate key of a map":     {"selinux:\n  /opt: a\n  /opt: b\n", `my.yaml: line 3: key "/opt" is already set in line 2`},
		"duplicate unknown key":      {"a: x\na: y\n", `my.yaml: line 2: key "a" is already set in line 1`},
		"second document":            {"name: x\n---\nname: y\n", `my.yaml: line 2: a second YAML document starts here: one file holds one`},
		"second document, empty":     {"name: x\n---\n", `my.yaml: line 2: a second YAML document starts here: one file holds one`},
		"second document, broken":    {"name: x\n---\n: : :\n", `my.yaml: after the first document: line 2: did not find expected key`},
		"empty file":                 {"", `my.yaml: the file is empty`},
		"comments only":              {"# nothing\n", `my.yaml: the file is empty`},
		"document start only":        {"---\n", `my.yaml: the file is empty`},
		"null document":              {"null\n", `my.yaml: the file is empty`},
		"list document":              {"- name: x\n", `my.yaml: line 1: the file must be a mapping, not a list`},
		"text document":              {"name\n", `my.yaml: line 1: the file must be a mapping, not "name"`},
		"no value":                   {"format: archive\nname:\n", `my.yaml: line 2: key "name" has no value: give it one or remove the line`},
		"no value, nested":           {"plugins:\n  with: ~\n", `my.yaml: line 2: key "with" has no value: give it one or remove the line`},
		"list for text":              {"name: [x]\n", `my.yaml: line 1: key "name" must be text, not a list`},
		"mapping for text":           {"name: {x: y}\n", `my.yaml: line 1: key "name" must be text, not a mapping`},
		"number for text":            {"description: x\nname: 5\n", `my.yaml: line 2: key "name" must be text: put 5 into quotes`},
		"truth value for text":       {"name: true\n", `my.yaml: line 1: key "name" must be text: put true into quotes`},
		"date for text":              {"name: 2026-01-01\n", `my.yaml: line 1: key "name" must be text: put 2026-01-01 into quotes`},
		"binary for text":            {"name: !!binary aGVsbG8=\n", `my.yaml: line 1: key "name" must be text, not "aGVsbG8="`},
		"text for list":              {"architectures: amd64\n", `my.yaml: line 1: key "architectures" must be a list, not "amd64"`},
		"wrong type in a list":       {"plugins:\n  with:\n  - dhcp\n  - [tap]\n", `my.yaml: line 4: key "with" must be text, not a list`},
		"null in a list":             {"architectures: [~]\n", `my.yaml: line 1: key "architectures" must be text, not "~"`},
		"list for mapping":           {"extension: [x]\n", `my.yaml: line 1: key "extension" must be a mapping, not a list`},
		"list for map":               {"selinux: [x]\n", `my.yaml: line 1: key "selinux" must be a mapping, not a list`},
		"wrong type in a map":        {"selinux:\n  /opt: [x]\n", `my.yaml: line 2: key "/opt" must be text, not a list`},
		"wrong type by an alias":     {"plugins: {with: &a [dhcp]}\nname: *a\n", `my.yaml: line 1: key "name" must be text, not a list`},
		"anchor within itself":       {"plugins: {with: &a [*a]}\n", `my.yaml: line 1: key "with" must be text, not a list`},
		"merged mapping":             {"<<: {name: x}\n", `my.yaml: line 1: key "<<" merges another mapping: write its keys out`},
		"not YAML":                   {"name: \"x\n", `my.yaml: line 2: found unexpected end of stream`},
		"tab":                        {"plugins:\n\twith: [x]\n", `my.yaml: line 2: found character that cannot start any token`},
		"too large":                  {"# " + strings.Repeat("x", 1<<20), `my.yaml: 1048578 bytes are more than such a file can have (limit 1048576)`},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := profiles.Parse("my.yaml", []byte(test.document))
			checkError(t, err, test.want)
		})
	}
}

// TestStrictNumbers is about the one number a pin has: yaml.v3 would make 1 of 1.5.
func TestStrictNumbers(t *testing.T) {
	t.Parallel()

	for value, want := range map[string]string{
		"one":                  `"one"`,
		"'1'":                  `"1"`,
		"1.5":                  `"1.5"`,
		"1e3":                  `"1e3"`,
		"true":                 `"true"`,
		"[1]":                  `a list`,
		"99999999999999999999": `"99999999999999999999"`,
		"9223372036854775808":  `"9223372036854775808"`,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()

			_, err := profiles.ParsePin("my.yaml", []byte("version: v1.9.1\nrevision: "+value+"\n"))
			checkError(t, err, `my.yaml: line 2: key "revision" must be a whole number, not `+want)
		})
	}
}

// TestFilesThatCannotBeRead also shows that a FIFO without a writer does not block.
func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")

	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}

	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	const size = 8 << 30 // sparse: reading all of it would be noticed
	if err := os.Truncate(large, size); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		fifo:                             fifo + " is not a regular file",
		dir + "/":                        dir + "/ is not a regular file",
		"/dev/zero":                      "/dev/zero is not a regular file",
		filepath.Join(dir, "absent.yml"): "absent.yml: no such file or directory",
		large:                            large + ": 1048577 bytes are more than such a file can have (limit 1048576)",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()

			if _, err := profiles.Load(name); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("profile: got error %v, want it to end in %q", err, want)
			}

			if _, err := profiles.LoadPin(name); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("pin: got error %v, want it to end in %q", err, want)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()

	if err == nil {
		t.Fatalf("no error; want %q", want)
	}

	if err.Error() != want {
		t.Errorf("error is\n\t%s\nwant\n\t%s", err, want)
	}
}

// upper reads its own text.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	if string(text) != "A" {
		return errors.New("not an A")
	}

	*u = "A"

	return nil
}

func TestDecodeStrictTypes(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct{ text, want string }{
		{"truth: true\nwhole: 9007199254740993\nown: A\n", ""},
		{"truth: \"true\"\n", `f: line 1: key "truth" must be true or false, not "true"`},
		{"truth: 1\n", `f: line 1: key "truth" must be true or false, not "1"`},
		{"whole: 1.5\n", `f: line 1: key "whole" must be a whole number, not "1.5"`},
		{"own: B\n", "f: not an A"},
		{"own: [A]\n", `f: line 1: key "own" must be text, not a list`},
	} {
		var v struct {
			Truth bool  `yaml:"truth"`
			Whole int64 `yaml:"whole"`
			Own   upper `yaml:"own"`
		}

		got := ""
		if err := profiles.DecodeStrict("f", []byte(tt.text), &v); err != nil {
			got = err.Error()
		}

		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}

		if got == "" && (!v.Truth || v.Whole != 9007199254740993 || v.Own != "A") {
			t.Errorf("%q: decoded %+v", tt.text, v)
		}
	}
}
