package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readObjects(text string) (*objects, error) {
	o := &objects{vms: map[string]string{}}

	return o, o.read(Input{Name: "f", Data: strings.NewReader(text)})
}

func nad(name, config string) string {
	return fmt.Sprintf(`{"kind": "NetworkAttachmentDefinition", "metadata": {"name": %q, "namespace": "ns"}, "spec": {"config": %q}}`, name, config)
}

// Objects are found however kubectl prints them: alone, one after another, in lists.
func TestObjectsAreRead(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one":          {nad("a", "{}"), []string{"ns/a={}"}},
		"stream":       {nad("a", "{}") + "\n" + nad("b", "{}") + nad("c", ""), []string{"ns/a={}", "ns/b={}", "ns/c="}},
		"list":         {`{"apiVersion": "v1", "items": [` + nad("a", "{}") + `, ` + nad("b", "{}") + `], "kind": "List"}`, []string{"ns/a={}", "ns/b={}"}},
		"kind first":   {`{"kind": "NetworkAttachmentDefinitionList", "items": [` + nad("a", "{}") + `]}`, []string{"ns/a={}"}},
		"empty list":   {`{"items": [], "kind": "List"}`, nil},
		"other kinds":  {`{"items": [{"kind": "Service", "spec": {"config": 1}}, ` + nad("a", "{}") + `], "kind": "List"}`, []string{"ns/a={}"}},
		"no namespace": {`{"kind": "NetworkAttachmentDefinition", "metadata": {"name": "a"}, "spec": {"config": "{}"}}`, []string{"default/a={}"}},
		"no spec":      {`{"kind": "NetworkAttachmentDefinition", "metadata": {"name": "a"}}`, []string{"default/a="}},
		"a CNI list":   {` {"name": "x", "plugins": []} `, []string{`f={"name": "x", "plugins": []}`}},
		"a plugin":     {`{"type": "x"}{"type": "y"}`, []string{`f={"type": "x"}`, `f={"type": "y"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o, err := readObjects(test.text)
			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, a := range o.attachments {
				got = append(got, a.name+"="+string(a.data))
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want - got +:\n%s", diff)
			}
		})
	}
}

// What is wrong with a text is said with the line and column of the first wrong character.
func TestPositions(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"{\n  \"kind\": \"List\",\n  \"items\": [,]\n}":             "f:3:13: ",
		"{\"type\": \"a\"}\n{\"type\": \"b\" \"c\"}":                "f:2:14: ",
		"{\"type\": \"a\"}\n\n  {\"kind\": 1}":                      "f:3:12: ",
		"{\"items\": [\n {\"kind\": \"Pod\"},\n {\"kind\": [1]}]}":  "f:3:11: ",
		"{\"items\": [\n {\"kind\": \"Pod\"},\n {\"kind\": \"Pod\"": "f:3:15: unexpected end",
		"{\"items\": 1}":               "f:1:11: \"items\" is not a list",
		"[1]":                          "f:1:1: it is not an object",
		"\n\"text\"":                   "f:2:6: it is not an object",
		"{\"type\": \"a\"} ]":          "f:1:15: ",
		"{\"type\": \"a\"} x":          "f:1:15: ",
		"apiVersion: v1\nkind: List\n": "f:1:1: ",
		"{\"ä\": \"ö\" \"ü\"}":         "f:1:11: ",
		"{\"type\": \"a\"":             "f:1:12: unexpected end",
		"{\"kind\": \"Pod\", \"spec\": {\"containers\": \"none\"}}": "f:1:45: \"containers\" is a string",
	} {
		_, err := readObjects(text)

		var bad *badInputError
		if !errors.As(err, &bad) {
			t.Errorf("%q: %v", text, err)
		} else if !strings.HasPrefix(bad.Error(), want) {
			t.Errorf("%q: %q, want %q", text, bad.Error(), want)
		}
	}
}

// Inputs larger than anything real are refused, before they take memory.
func TestInputsAreBounded(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"text":        strings.Repeat(" ", maxInput+1),
		"nothing":     " \n",
		"attachments": strings.Repeat(`{"type":"a"}`, maxAttachments+1),
		"items":       `{"items":[` + strings.Repeat(`{},`, maxAttachments+1) + `{}]}`,
		"object":      `{"type":"` + strings.Repeat("a", maxObject) + `"}`,
		"values":      `{"kind":"Pod","spec":{"containers":[` + strings.Repeat("{},", maxCommas+1) + `{}]}}`,
	} {
		_, err := readObjects(text)

		var bad *badInputError
		if err == nil || errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Multus's own objects and virtual machines among the attachments are used.
func TestOtherObjectsAreUsed(t *testing.T) {
	t.Parallel()

	o, err := readObjects(`{"kind": "List", "items": [
		{"kind": "VirtualMachine", "metadata": {"name": "vm", "namespace": "ns"}, "spec": {"template": {"spec": {"networks": [{"name": "x", "pod": {}}, {"multus": {"networkName": "a"}}]}}}},
		{"kind": "VirtualMachineInstance", "metadata": {"name": "vmi", "namespace": "ns"}, "spec": {"networks": [{"multus": {"networkName": "other/b"}}]}},
		{"kind": "ConfigMap", "metadata": {"name": "multus-daemon-config"}, "data": {"daemon-config.json": "{\"binDir\": \"/b\"}"}},
		{"kind": "ConfigMap", "metadata": {"name": "unrelated"}, "data": {"x": "y"}},
		{"kind": "Pod", "metadata": {"name": "unrelated"}, "spec": {"containers": [{"name": "web", "command": ["/web"]}]}},
		{"kind": "DaemonSet", "metadata": {"name": "multus"}, "spec": {"template": {"spec": {"containers": [{"name": "x"}, {"name": "daemon", "command": ["/usr/src/multus-cni/bin/multus-daemon"]}]}}}}]}`)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]string{"ns/a": "ns/vm", "other/b": "ns/vmi"}, o.vms); diff != "" {
		t.Error(diff)
	}

	if string(o.daemonConfig) != `{"binDir": "/b"}` || o.multus == nil || o.multus.daemon().Name != "daemon" {
		t.Errorf("%s, %+v", o.daemonConfig, o.multus)
	}
}

func FuzzInput(f *testing.F) {
	for _, text := range []string{nad("a", "{}"), `{"items": [` + nad("a", "{}") + `, {"kind": "Pod"}], "kind": "List"}`, `{"type":"x"}`, "[", "{\"items\": [1]}", "]"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		o, err := readObjects(text)

		var bad *badInputError
		if errors.As(err, &bad) && !strings.HasPrefix(bad.where, "f") {
			t.Errorf("an error without its place: %v", err)
		}

		if err == nil && strings.TrimSpace(text) == "" {
			t.Error("nothing is taken for something")
		}

		for _, a := range o.attachments {
			n, err := parseAttachment(a.data, "x")
			if err != nil {
				_ = position(a.data, 0, err) + jsonError(err)

				continue
			}

			_ = callsOf(n)
		}
	})
}

// Text from outside cannot move the cursor, colour the screen, or leave its line.
func TestTextIsMadeSafe(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"bridge": "bridge", "mit Umlaut ü": "mit Umlaut ü", "\x1b[2J": `"\x1b[2J"`, "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "\xff": `"\xff"`, `"a\nb"`: `"a\nb"`,
	} {
		if got := safe(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}

		if got := say("%s", text); got != want || safe(got) != got {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}

	if got := command("rm", "-r", "/a b", "$(reboot)", "it's", "", "Z-9:@,=+_.z"); got != `rm -r '/a b' '$(reboot)' 'it'\''s' '' Z-9:@,=+_.z` {
		t.Error(got)
	}
}
