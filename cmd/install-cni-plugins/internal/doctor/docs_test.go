package doctor

import (
	"context"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// blocks returns the YAML of a document that holds some text.
func blocks(t *testing.T, file, holding string) []string {
	t.Helper()

	data, err := os.ReadFile("../../../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}

	var found []string

	for _, part := range strings.Split(string(data), "```yaml\n")[1:] {
		if text, _, _ := strings.Cut(part, "```"); strings.Contains(text, holding) {
			found = append(found, text)
		}
	}

	if len(found) == 0 {
		t.Fatalf("docs/%s has no YAML with %q", file, holding)
	}

	return found
}

// The attachment of the guide for virtual machines has nothing that the doctor knows to be wrong.
func TestDocsHaveASoundAttachment(t *testing.T) {
	t.Parallel()

	data, err := yaml.YAMLToJSON([]byte(blocks(t, "vm-vlan.md", "kind: NetworkAttachmentDefinition")[0]))
	if err != nil {
		t.Fatal(err)
	}

	root := t.TempDir()
	if err := os.MkdirAll(root+"/opt/cni/bin", 0o755); err != nil {
		t.Fatal(err)
	}

	d, err := Diagnose(context.Background(), &Options{
		Root: root, BinDirs: []string{"/opt/cni/bin"}, ConfDir: "/etc/cni/net.d", MayLackConfDir: true, VMs: []string{All},
		Inputs: []Input{{"nad", strings.NewReader(string(data))}}, Source: root,
	})
	if err != nil {
		t.Fatal(err)
	}

	a := d.Attachments[0]
	if len(a.Findings) > 0 || len(a.Plugins) != 1 || a.Plugins[0].Findings[0].Verdict != Missing {
		t.Errorf("%+v", a)
	}
}
