package plugins

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// MergeCompiler builds one program out of a module's packages and generated ones.
type MergeCompiler interface {
	// CompileMerged calls generate with the directory of the pinned module's sources and the name of
	// the main module that the files will be part of, and builds the main package among them into
	// the file out.
	CompileMerged(ctx context.Context, pin profiles.Pin, arch, ldflags, out string,
		generate func(moduleDir, name string) (map[string][]byte, error)) error
}

// Merger is a source that can link several plugins into one program.
type Merger interface {
	Source
	// ProvideMerged returns a program that acts as the selected plugin by whose name it is called.
	ProvideMerged(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (File, error)
}

var _ Merger = (*ModuleSource)(nil)

// generatorRevision changes when the generator's output does, so that older programs are not taken
// from the cache.
const generatorRevision = "2"

// ProvideMerged compiles the program, or takes it from the cache. It is refused unless its build info
// shows the pinned module and sum among what it was linked from.
func (s *ModuleSource) ProvideMerged(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (File, error) {
	toolchain, err := s.Compiler.Version(ctx)
	if err != nil {
		return File{}, fmt.Errorf("packaging multicall compiles the plugins: %w", err)
	}

	key := []string{"multicall", generatorRevision, pin.Module.Path, pin.Version, pin.Module.Sum, pin.Module.GoModSum, arch, toolchain, ldflags(pin)}
	for _, plugin := range selection {
		key = append(key, plugin.Package)
	}

	return s.Cache.File(ctx, "plugins", strings.Join(key, "\n"), func(ctx context.Context, target string) error {
		s.Log.Info(fmt.Sprintf("compiling %d plugins of %s into one program for %s", len(selection), pin.Version, arch))

		built := filepath.Join(dir, "multicall")

		err := s.Merge.CompileMerged(ctx, pin, arch, ldflags(pin), built, func(moduleDir, name string) (map[string][]byte, error) {
			return generateMerged(moduleDir, name, pin, arch, selection)
		})
		if err != nil {
			return err
		}

		if err := verifyMerged(built, pin, arch); err != nil {
			return fmt.Errorf("verifying the merged program for %s: %w", arch, err)
		}

		return copyProgram(built, target)
	})
}

// verifyMerged compares the program's build info with the pin.
func verifyMerged(name string, pin profiles.Pin, arch string) error {
	binary, err := payload.InspectFile(name)
	if err != nil {
		return err
	}

	module := binary.LinkedModule(pin.Module.Path)

	err = compare([]expectation{
		{"module version", module.Version, pin.Version},
		{"module sum", module.Sum, pin.Module.Sum},
	})
	if err != nil {
		return err
	}

	if module.Replace != nil {
		return fmt.Errorf("build info says module %s was replaced by %s", pin.Module.Path, module.Replace.Path)
	}

	return verifySettings(binary, arch)
}
