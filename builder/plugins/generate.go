package plugins

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/cnibake/cnibake/profiles"
)

// entryPoint is the name under which a merged plugin exports its main function.
const entryPoint = "MulticallMain"

// processWide are packages whose state belongs to the whole program: two plugins that each take it
// for their own would meet there.
var processWide = []string{"C", "embed", "expvar", "flag", "net/http/pprof", "plugin"}

// generateMerged returns the files of a main package, by path inside the module called name, that
// links the plugins into one program. Each plugin becomes a package of its own, with the one edit that
// its package clause no longer says main; func main is an ordinary function there. Whatever such an
// edit does not carry over is an error.
func generateMerged(moduleDir, name string, pin profiles.Pin, arch string, selection []profiles.Plugin) (map[string][]byte, error) {
	files := make(map[string][]byte)

	for _, plugin := range selection {
		if err := generatePackage(files, moduleDir, pin, arch, plugin); err != nil {
			return nil, fmt.Errorf("plugin %s cannot be merged: %w", plugin.Name, err)
		}
	}

	type imported struct{ Name, Package, Path string }

	var imports []imported
	for _, plugin := range selection {
		imports = append(imports, imported{plugin.Name, packageName(plugin), path.Join(name, packageDir(plugin))})
	}

	var main bytes.Buffer
	if err := dispatch.Execute(&main, map[string]any{"EntryPoint": entryPoint, "Plugins": imports}); err != nil {
		return nil, err
	}

	files["main.go"] = main.Bytes()

	return files, nil
}

// packageName is a Go identifier that no plugin uses for anything else.
func packageName(plugin profiles.Plugin) string {
	return "plugin_" + strings.ReplaceAll(plugin.Name, "-", "_")
}

func packageDir(plugin profiles.Plugin) string {
	return path.Join("internal", plugin.Name)
}

func generatePackage(files map[string][]byte, moduleDir string, pin profiles.Pin, arch string, plugin profiles.Plugin) error {
	dir := filepath.Join(moduleDir, filepath.FromSlash(plugin.Package))

	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled, context.BuildTags = "linux", arch, false, nil

	found, err := context.ImportDir(dir, 0)
	if err != nil {
		return fmt.Errorf("reading its package: %w", err)
	}

	if err := checkPackage(found, pin.Module.Path); err != nil {
		return err
	}

	mains := 0

	for _, file := range found.GoFiles {
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}

		edited, hasMain, err := editFile(file, source, packageName(plugin))
		if err != nil {
			return err
		}

		if hasMain {
			mains++
		}

		files[path.Join(packageDir(plugin), file)] = edited
	}

	if mains != 1 {
		return fmt.Errorf("it has %d main functions", mains)
	}

	export := path.Join(packageDir(plugin), "multicall_entry_point.go")
	if _, taken := files[export]; taken {
		return fmt.Errorf("file name %s is taken", path.Base(export))
	}

	files[export] = fmt.Appendf(nil, "package %s\n\n// %s is the plugin's main function.\nfunc %[2]s() { main() }\n", packageName(plugin), entryPoint)

	return nil
}

// checkPackage refuses what does not survive in a package of another name and path.
func checkPackage(found *build.Package, modulePath string) error {
	if found.Name != "main" {
		return fmt.Errorf("package %s is no program", found.Name)
	}

	others := slices.Concat(found.CgoFiles, found.CFiles, found.CXXFiles, found.MFiles, found.HFiles, found.FFiles,
		found.SFiles, found.SwigFiles, found.SwigCXXFiles, found.SysoFiles)
	if len(others) > 0 {
		return fmt.Errorf("%s is neither Go nor a test", others[0])
	}

	if len(found.EmbedPatterns) > 0 {
		return fmt.Errorf("it embeds %s", found.EmbedPatterns[0])
	}

	for _, imported := range found.Imports {
		if slices.Contains(processWide, imported) {
			return fmt.Errorf("it imports %s, whose state is the whole program's", imported)
		}

		internal := slices.Contains(strings.Split(imported, "/"), "internal")
		if internal && (imported == modulePath || strings.HasPrefix(imported, modulePath+"/")) {
			return fmt.Errorf("it imports %s, which only packages of its own module may", imported)
		}
	}

	return nil
}

// editFile changes the name in the package clause and reports whether the file has func main.
func editFile(name string, source []byte, packageName string) (edited []byte, hasMain bool, err error) {
	set := token.NewFileSet()

	file, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}

	for _, group := range file.Comments {
		for _, comment := range group.List {
			// Directives speak of symbols or files by the names they have now.
			if strings.HasPrefix(comment.Text, "//go:") && !strings.HasPrefix(comment.Text, "//go:build ") {
				return nil, false, fmt.Errorf("%s has the directive %s", name, comment.Text)
			}
		}
	}

	for _, declaration := range file.Decls {
		for _, declared := range declaredNames(declaration) {
			switch declared {
			case "main":
				_, isFunc := declaration.(*ast.FuncDecl)
				if !isFunc {
					return nil, false, fmt.Errorf("%s declares main as something else than a function", name)
				}

				hasMain = true
			case entryPoint:
				return nil, false, fmt.Errorf("%s already declares %s", name, entryPoint)
			}
		}
	}

	offset := set.Position(file.Name.Pos()).Offset

	const old = "main"
	if !bytes.HasPrefix(source[offset:], []byte(old)) {
		return nil, false, errors.New(name + " has no package clause where the parser saw it")
	}

	return slices.Concat(source[:offset], []byte(packageName), source[offset+len(old):]), hasMain, nil
}

// declaredNames returns the package-level names of a declaration; methods have none.
func declaredNames(declaration ast.Decl) []string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string

		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			}
		}

		return names
	}

	return nil
}

// dispatch is the merged program's main package. It goes by its own name only: the type in a
// configuration is the main plugin's even when an IPAM plugin is called.
var dispatch = template.Must(template.New("main.go").Parse(`// Code generated by cnibake; DO NOT EDIT.

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
{{range .Plugins}}
	{{.Package}} "{{.Path}}"{{end}}
)

var plugins = map[string]func(){
{{- range .Plugins}}
	"{{.Name}}": {{.Package}}.{{$.EntryPoint}},{{end}}
}

func main() {
	var called string
	if len(os.Args) > 0 {
		called = filepath.Base(os.Args[0])
	}

	run, ok := plugins[called]
	if !ok {
		// A caller may set argv[0] to anything; the file's own name is the next best.
		if file, err := os.Readlink("/proc/self/exe"); err == nil {
			run, ok = plugins[filepath.Base(file)]
		}
	}

	if ok {
		run()

		return
	}

	message := fmt.Sprintf("this program is several CNI plugins in one, and none of them is called %q", called)
	if os.Getenv("CNI_COMMAND") != "" {
		_ = types.NewError(types.ErrInternal, message, "call it by a plugin's name").Print()
	} else {
		fmt.Fprintln(os.Stderr, message)
	}

	os.Exit(1)
}
`))
