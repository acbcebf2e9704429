package kubernetes

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "sigs.k8s.io/yaml"
)

// FuzzEncode: whatever text an object and its comments have, Kubernetes reads the object that was written.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{"on", "1e3", "null", "", " a", "a ", "a: b", "# a", "a\n", "a\n\n b\n", "\n", "- a", "'", `"`, "%", "~", "0o7", "2026-11-29", "{a}"} {
		f.Add(text, text)
	}

	f.Fuzz(func(t *testing.T, text, note string) {
		// Whatever comes from outside is checked to be names and references.
		unprintable := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if !utf8.ValidString(text) || !utf8.ValidString(note) || strings.ContainsFunc(text+note, unprintable) || len(text+note) > 1000 {
			t.Skip()
		}

		d := document{
			object: &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"text": text}},
				Data:       map[string]string{"text": text},
			},
			header:   note,
			comments: []comment{{"data/text", note}},
		}

		data, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}

		var got corev1.ConfigMap
		if err := kubeyaml.UnmarshalStrict(data, &got); err != nil {
			t.Fatalf("%v:\n%s", err, data)
		}

		if got.Data["text"] != text || got.Labels["text"] != text || got.Name != "a" || len(got.Data) != 1 {
			t.Errorf("%q was read as %q and %q:\n%s", text, got.Data["text"], got.Labels["text"], data)
		}
	})
}

func TestCommentWithoutField(t *testing.T) {
	t.Parallel()

	d := document{object: &corev1.ConfigMap{Data: map[string]string{"a": "b"}}, comments: []comment{{"data/c", "text"}}}

	if _, err := d.encode(); err == nil || !strings.Contains(err.Error(), "commenting data/c: there is no c") {
		t.Errorf("error is %v", err)
	}
}
