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

	"github.com/cnibake/cnibake/profiles"
)

// entryPoint is the name under which a merged plugin exports its main function.
const entryPoint = "MulticallMain"

// unmergeableError says why a plugin cannot be part of a merged program.
type unmergeableError struct {
	plugin string
	err    error
}

func (e *unmergeableError) Error() string {
	return fmt.Sprintf("plugin %s cannot be merged: %v", e.plugin, e.err)
}

func (e *unmergeableError) Unwrap() error { return e.err }

// generateMerged returns the files of a main package, by path inside the module called name, that
// links the plugins into one program. Each plugin becomes a package of its own, with the one edit that
// its package clause no longer says main; func main is an ordinary function there. Whatever such an
// edit does not carry over is an error.
func generateMerged(moduleDir, name string, pin profiles.Pin, arch string, selection []profiles.Plugin) (map[string][]byte, error) {
	files := make(map[string][]byte)

	for _, plugin := range selection {
		if err := generatePackage(files, moduleDir, pin, arch, plugin); err != nil {
			return nil, &unmergeableError{plugin.Name, err}
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

	if err := checkCgo(context, dir); err != nil {
		return err
	}

	for _, file := range found.GoFiles {
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}

		// As upstream's own build names it in traces.
		origin := path.Join(pin.Module.Path+"@"+pin.Version, plugin.Package, file)

		edited, hasMain, err := editFile(file, origin, source, packageName(plugin))
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

// editFile changes the name in the package clause, lets the compiler call the file origin, and reports
// whether it has func main.
func editFile(name, origin string, source []byte, packageName string) (edited []byte, hasMain bool, err error) {
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
		if err := checkStart(declaration); err != nil {
			return nil, false, fmt.Errorf("%s: %w", name, err)
		}

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

	return slices.Concat([]byte("//line "+origin+":1\n"), source[:offset], []byte(packageName), source[offset+len(old):]), hasMain, nil
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
