package plugins

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/token"
	"slices"
	"strings"
)

// processWide are packages whose state belongs to the whole program: two plugins that each take it
// for their own would meet there.
var processWide = []string{"C", "embed", "expvar", "flag", "net/http/pprof", "plugin"}

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

// checkCgo refuses files that only a build with cgo takes. Upstream's own build does not take them, but
// what they are for is not known here.
func checkCgo(context build.Context, dir string) error {
	context.CgoEnabled = true

	found, err := context.ImportDir(dir, 0)
	if err != nil {
		return fmt.Errorf("reading its package: %w", err)
	}

	if len(found.CgoFiles) > 0 {
		return fmt.Errorf("%s uses cgo", found.CgoFiles[0])
	}

	return nil
}

// checkStart refuses what runs before main: in the merged program it runs for every plugin. Locking
// the main thread is what plugins do there, and does not matter to those that do not.
func checkStart(declaration ast.Decl) error {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil || d.Name.Name != "init" || onlyLocksThread(d.Body) {
			return nil
		}

		return errors.New("its init function does more than to call runtime.LockOSThread")
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			values, ok := spec.(*ast.ValueSpec)
			if !ok || d.Tok != token.VAR {
				continue
			}

			for _, value := range values.Values {
				if computes(value) {
					return fmt.Errorf("variable %s is computed before main", values.Names[0].Name)
				}
			}
		}
	}

	return nil
}

func onlyLocksThread(body *ast.BlockStmt) bool {
	if body == nil || len(body.List) != 1 {
		return false
	}

	statement, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}

	call, ok := statement.X.(*ast.CallExpr)
	if !ok {
		return false
	}

	callee, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}

	pkg, ok := callee.X.(*ast.Ident)

	return ok && pkg.Name == "runtime" && callee.Sel.Name == "LockOSThread"
}

// computes reports whether an expression calls or receives; what is inside a function literal does so
// only when that is called.
func computes(value ast.Expr) bool {
	found := false

	ast.Inspect(value, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}

		return !found
	})

	return found
}
