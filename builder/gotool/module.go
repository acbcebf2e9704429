package gotool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// ScratchModule is the name of the small main module that stands in for the one being built. The build
// info of a generated program gives it as the program's path.
const ScratchModule = "cni-plugins"

// BuildModule compiles main packages of a module, named by import path, exactly as its authors
// require: with the versions and sums of the module's own go.mod and go.sum and its own go line.
// Programs then carry the module's path, version and sum in their build info. Nothing is fetched
// that the module cache already holds. The rest is as in BuildDir.
func (t *Toolchain) BuildModule(ctx context.Context, module Module, arch, ldflags, out string, packages []string) error {
	return t.inScratch(ctx, module, func(scratch, _ string) error {
		return t.BuildDir(ctx, scratch, arch, ldflags, out, packages)
	})
}

// BuildGenerated compiles a generated main package against a module and its dependencies, as
// BuildModule would, into the file out. generate gets the directory of the module's sources and the name of the
// main module, and returns the files of that module by slash-separated path.
func (t *Toolchain) BuildGenerated(ctx context.Context, module Module, arch, ldflags, out string,
	generate func(moduleDir, name string) (map[string][]byte, error),
) error {
	return t.inScratch(ctx, module, func(scratch, moduleDir string) error {
		files, err := generate(moduleDir, ScratchModule)
		if err != nil {
			return err
		}

		for name, data := range files {
			target := filepath.Join(scratch, filepath.FromSlash(name))

			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}

			if err := os.WriteFile(target, data, 0o644); err != nil {
				return err
			}
		}

		programs := filepath.Join(scratch, "out")
		if err := os.Mkdir(programs, 0o755); err != nil {
			return err
		}

		if err := t.BuildDir(ctx, scratch, arch, ldflags, programs, []string{"."}); err != nil {
			return err
		}

		return moveFile(filepath.Join(programs, ScratchModule), out)
	})
}

// inScratch runs do with a main module that stands in for the given one, and the directory of the
// module's sources.
func (t *Toolchain) inScratch(ctx context.Context, module Module, do func(scratch, moduleDir string) error) error {
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

	return do(scratch, dir)
}

// moveFile moves a file, also to another file system.
func moveFile(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}

	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, in)

	return errors.Join(err, out.Close())
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

	if err := writeFiles(scratch, "module "+ScratchModule+"\n\ngo 1.24\n", sums); err != nil {
		return Module{}, "", err
	}

	out, err := output(ctx, t.run(ctx, scratch, "mod", "download", "-json", module.Path+"@"+module.Version))
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

	if err := file.AddModuleStmt(ScratchModule); err != nil {
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
