package gotool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// Module is a Go module whose sums are known beforehand.
type Module struct {
	Path, Version string
	// Sum is the h1: hash of the module's zip file. It is never fetched: a proxy that serves
	// something else is refused.
	Sum string
	// GoModSum is the h1: hash of the module's go.mod; empty to take what the module cache has,
	// which Sum vouches for because the zip file contains the same go.mod.
	GoModSum string
}

// scratchModule is the name of the small main module that stands in for the one being built.
const scratchModule = "cnibake-scratch"

// BuildModule compiles main packages of a module, named by import path, exactly as its authors
// require: with the versions and sums of the module's own go.mod and go.sum and its own go line.
// Programs then carry the module's path, version and sum in their build info. Nothing is fetched
// that the module cache already holds. The rest is as in BuildDir.
func (t *Toolchain) BuildModule(ctx context.Context, module Module, arch, ldflags, out string, packages []string) error {
	scratch, err := os.MkdirTemp("", "cnibake-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)

	module, dir, err := t.download(ctx, scratch, module)
	if err != nil {
		return err
	}

	if err := writeScratch(scratch, dir, module); err != nil {
		return fmt.Errorf("preparing to build %s: %w", module.Path, err)
	}

	return t.BuildDir(ctx, scratch, arch, ldflags, out, packages)
}

// download brings a module into the module cache, held to its sums, and returns it with both sums
// filled in and the directory it was unpacked to.
func (t *Toolchain) download(ctx context.Context, scratch string, module Module) (Module, string, error) {
	// A main module without requirements, whose go.sum vouches for this one module: the Go command
	// then asks neither the checksum database nor the proxy for what it has.
	sums := fmt.Sprintf("%s %s %s\n", module.Path, module.Version, module.Sum)
	if module.GoModSum != "" {
		sums += fmt.Sprintf("%s %s/go.mod %s\n", module.Path, module.Version, module.GoModSum)
	}

	if err := writeFiles(scratch, "module "+scratchModule+"\n\ngo 1.24\n", sums); err != nil {
		return Module{}, "", err
	}

	out, err := output(t.run(ctx, scratch, "mod", "download", "-json", module.Path+"@"+module.Version))
	if err != nil {
		return Module{}, "", fmt.Errorf("downloading %s %s: %w", module.Path, module.Version, err)
	}

	var answer struct{ Dir, Sum, GoModSum string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return Module{}, "", fmt.Errorf("reading the answer of go mod download: %w", err)
	}

	if answer.Sum != module.Sum {
		return Module{}, "", fmt.Errorf("%s %s has sum %s instead of %s", module.Path, module.Version, answer.Sum, module.Sum)
	}

	if module.GoModSum == "" {
		module.GoModSum = answer.GoModSum
	}

	return module, answer.Dir, nil
}

// writeScratch makes a main module that has the module's own requirements plus the module itself.
func writeScratch(scratch, dir string, module Module) error {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}

	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return err
	}

	if err := file.AddModuleStmt(scratchModule); err != nil {
		return err
	}

	if err := file.AddRequire(module.Path, module.Version); err != nil {
		return err
	}

	mod, err := file.Format()
	if err != nil {
		return err
	}

	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return err
	}

	return writeFiles(scratch, string(mod), fmt.Sprintf("%s%s %s %s\n%s %s/go.mod %s\n",
		sums, module.Path, module.Version, module.Sum, module.Path, module.Version, module.GoModSum))
}

func writeFiles(dir, mod, sum string) error {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, "go.sum"), []byte(sum), 0o644)
}
