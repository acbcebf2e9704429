package builder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder"
)

// TestModuleNamesInSBOMs: Talos makes a resource of every package, by its name, so that a Go module under
// its own path would hide the version that Talos itself was built with. Elsewhere modules keep their names.
func TestModuleNamesInSBOMs(t *testing.T) {
	t.Parallel()

	const module = "github.com/containernetworking/cni"

	options := realOptions(t, "talos", "talos-readonly", "generic-linux")
	if _, err := builder.Build(t.Context(), options); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		"talos-amd64":          "cni-plugins/" + module,
		"talos-readonly-amd64": "cni-plugins-readonly/" + module,
		"generic-linux-amd64":  module,
	} {
		data, err := os.ReadFile(filepath.Join(options.Out, name+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}

		var document struct {
			Packages []struct{ Name string }
		}

		if err := json.Unmarshal(data, &document); err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, p := range document.Packages {
			names = append(names, p.Name)
		}

		if !slices.Contains(names, want) {
			t.Errorf("%s does not name %s: %q", name, want, names)
		}

		foreign := func(name string) bool { return !strings.HasPrefix(name, "cni-plugin") }
		if strings.HasPrefix(name, "talos") && slices.ContainsFunc(names, foreign) {
			t.Errorf("%s has names that Talos may use itself: %q", name, names)
		}
	}
}
