package installer_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/installer"
)

const modulePath = "github.com/cnibake/cnibake"

// write makes files below a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()

	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func TestFindCheckout(t *testing.T) {
	t.Parallel()

	released := &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v1.2.3", Sum: "h1:x="}}

	for name, test := range map[string]struct {
		files map[string]string
		// dir is where cnibake runs, root the checkout it must find there; empty for none.
		dir, root string
	}{
		"root":              {map[string]string{"go.mod": "module " + modulePath + "\n\ngo 1.26\n"}, ".", "."},
		"deep inside":       {map[string]string{"go.mod": "module " + modulePath + "\n", "a/b/c/x": ""}, "a/b/c", "."},
		"comment after":     {map[string]string{"go.mod": "module " + modulePath + " // ours\n"}, ".", "."},
		"comments before":   {map[string]string{"go.mod": "// module example.org/other\n\nmodule " + modulePath + "\n"}, ".", "."},
		"quoted":            {map[string]string{"go.mod": "module \"" + modulePath + "\"\n"}, ".", "."},
		"CRLF":              {map[string]string{"go.mod": "module " + modulePath + "\r\n\r\ngo 1.26\r\n"}, ".", "."},
		"none":              {map[string]string{"a/x": ""}, "a", ""},
		"other module":      {map[string]string{"go.mod": "module example.org/other\n"}, ".", ""},
		"longer path":       {map[string]string{"go.mod": "module " + modulePath + "ry\n"}, ".", ""},
		"other version":     {map[string]string{"go.mod": "module " + modulePath + "/v2\n"}, ".", ""},
		"commented out":     {map[string]string{"go.mod": "// module " + modulePath + "\nmodule example.org/other\n"}, ".", ""},
		"required only":     {map[string]string{"go.mod": "module example.org/other\n\nrequire (\n" + modulePath + " v1.0.0\n)\n"}, ".", ""},
		"not a module file": {map[string]string{"go.mod": "<html>"}, ".", ""},
		"other module inside ours": {map[string]string{
			"go.mod": "module " + modulePath + "\n", "hack/tools/go.mod": "module example.org/tools\n", "hack/tools/x/y": "",
		}, "hack/tools/x", ""},
		"ours inside another": {map[string]string{
			"go.mod": "module example.org/other\n", "vendored/go.mod": "module " + modulePath + "\n", "vendored/a/x": "",
		}, "vendored/a", "vendored"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			top := write(t, test.files)

			source, err := installer.Find(filepath.Join(top, test.dir), released, nil)
			if err != nil {
				t.Fatal(err)
			}

			var want installer.Source = &installer.ModuleSource{Version: "v1.2.3", Sum: "h1:x="}
			if test.root != "" {
				want = &installer.CheckoutSource{Root: filepath.Join(top, test.root)}
			}

			if diff := cmp.Diff(want, source); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFindThisCheckout runs where `go test` runs.
func TestFindThisCheckout(t *testing.T) {
	t.Parallel()

	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	source, err := installer.Find(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	want := filepath.Dir(filepath.Dir(dir))
	if checkout, ok := source.(*installer.CheckoutSource); !ok || checkout.Root != want {
		t.Errorf("source is %+v, want the checkout %s", source, want)
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()

	for name, own := range map[string]*debug.BuildInfo{
		"no build info":          nil,
		"built from a checkout":  {Main: debug.Module{Path: modulePath, Version: "(devel)"}},
		"part of something else": {Main: debug.Module{Path: "example.org/other", Version: "v1.0.0", Sum: "h1:x="}},
		"replaced":               {Main: debug.Module{Path: modulePath, Version: "v1.0.0", Sum: "h1:x=", Replace: &debug.Module{Path: "../fork"}}},
	} {
		source, err := installer.Find(t.TempDir(), own, nil)
		if err == nil || !strings.HasSuffix(err.Error(), "or give the binary with --installer PATH") {
			t.Errorf("%s: source is %+v, error %v", name, source, err)
		}
	}
}
