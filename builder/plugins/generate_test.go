package plugins_test

import (
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/plugins"
)

// pluginSource writes the package of plugin static with these files, and returns the module's directory.
func pluginSource(t *testing.T, files map[string]string) string {
	t.Helper()

	module := t.TempDir()
	dir := filepath.Join(module, "plugins/ipam/static")

	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return module
}

func TestGenerateEditsTheNameOnly(t *testing.T) {
	t.Parallel()

	const body = `// Copyright main authors.

// package main is described here
/* and */ package /* here */ main // main

import "fmt"

type main2 struct{ main string }

func (main2) main() {}

func main() { main := 1; fmt.Println("package main", main) }
`

	files, err := plugins.GenerateMerged(pluginSource(t, map[string]string{
		"main.go": body, "other.go": "package main\n", "main_test.go": "package main\n\nimport _ \"flag\"\n", "main_windows.go": "package main\n\nimport \"C\"\n",
	}), "m", loadPin(t), "amd64", selection(t, "static"))
	if err != nil {
		t.Fatal(err)
	}

	want := []string{"internal/static/main.go", "internal/static/multicall_entry_point.go", "internal/static/other.go", "main.go"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	edited := "//line github.com/containernetworking/plugins@v1.9.1/plugins/ipam/static/main.go:1\n" +
		strings.Replace(body, "package /* here */ main", "package /* here */ plugin_static", 1)
	if diff := cmp.Diff(edited, string(files["internal/static/main.go"])); diff != "" {
		t.Errorf("edited file (-want +got):\n%s", diff)
	}

	for _, name := range []string{"main.go", "internal/static/multicall_entry_point.go"} {
		if formatted, err := format.Source(files[name]); err != nil || string(formatted) != string(files[name]) {
			t.Errorf("%s is not as gofmt has it: %v\n%s", name, err, files[name])
		}
	}
}

// TestGenerateFailsClosed: what the edit does not carry over is refused.
func TestGenerateFailsClosed(t *testing.T) {
	t.Parallel()

	const good = "package main\n\nfunc main() {}\n"

	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no files":        {nil, "reading its package: no buildable Go source files in "},
		"library":         {map[string]string{"a.go": "package static\n"}, "package static is no program"},
		"two packages":    {map[string]string{"a.go": good, "b.go": "package other\n"}, "reading its package: found packages main (a.go) and other (b.go) in "},
		"no main":         {map[string]string{"a.go": "package main\n\ntype t struct{}\n\nfunc (t) main() {}\n"}, "it has 0 main functions"},
		"two mains":       {map[string]string{"a.go": good, "b.go": good}, "it has 2 main functions"},
		"main, no func":   {map[string]string{"a.go": "package main\n\nvar main = func() {}\n"}, "a.go declares main as something else than a function"},
		"syntax":          {map[string]string{"a.go": "package main\n\nfunc main() {\n"}, "a.go:3:15: expected '}', found 'EOF'"},
		"assembly":        {map[string]string{"a.go": good, "b.s": ""}, "b.s is neither Go nor a test"},
		"object file":     {map[string]string{"a.go": good, "b.syso": ""}, "b.syso is neither Go nor a test"},
		"embed":           {map[string]string{"a.go": "package main\n\nimport _ \"embed\"\n\n//go:embed a.go\nvar s string\n\nfunc main() {}\n"}, "it embeds a.go"},
		"linkname":        {map[string]string{"a.go": "package main\n\nimport _ \"unsafe\"\n\n//go:linkname now time.now\nfunc now()\n\nfunc main() {}\n"}, "a.go has the directive //go:linkname now time.now"},
		"flag":            {map[string]string{"a.go": "package main\n\nimport _ \"flag\"\n\nfunc main() {}\n"}, "it imports flag, whose state is the whole program's"},
		"internal":        {map[string]string{"a.go": "package main\n\nimport _ \"github.com/containernetworking/plugins/internal/x\"\n\nfunc main() {}\n"}, "it imports github.com/containernetworking/plugins/internal/x, which only packages of its own module may"},
		"taken name":      {map[string]string{"a.go": good + "\nfunc MulticallMain() {}\n"}, "a.go already declares MulticallMain"},
		"taken file name": {map[string]string{"multicall_entry_point.go": good}, "file name multicall_entry_point.go is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := plugins.GenerateMerged(pluginSource(t, test.files), "m", loadPin(t), "amd64", selection(t, "static"))
			if want := "plugin static cannot be merged: " + test.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}
