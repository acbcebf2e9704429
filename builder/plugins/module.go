package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// ModuleSource builds the plugins from the pinned Go module with upstream's own dependency versions.
type ModuleSource struct {
	Compiler Compiler
	// Merge is needed for ProvideMerged only.
	Merge MergeCompiler
	Cache Cache
	Log   *slog.Logger
}

var _ Source = (*ModuleSource)(nil)

// Kind is "module".
func (s *ModuleSource) Kind() string { return "module" }

// Provide compiles what the cache does not have, all in one go. The programs are refused unless
// their own build info shows the pinned module and sum and the settings that make them portable.
func (s *ModuleSource) Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (Files, error) {
	toolchain, err := s.Compiler.Version(ctx)
	if err != nil {
		return Files{}, fmt.Errorf("source module compiles the plugins: %w (or take upstream's binaries with --source release)", err)
	}

	key := func(plugin profiles.Plugin) string {
		return strings.Join([]string{
			"plugin", pin.Module.Path, pin.Version, pin.Module.Sum, pin.Module.GoModSum, plugin.Package, arch, toolchain, ldflags(pin),
		}, "\n")
	}

	files := Files{ByName: make(map[string]File)}

	var missing []profiles.Plugin

	for _, plugin := range selection {
		file, err := s.Cache.File(ctx, "plugins", key(plugin), notCached)
		if errors.Is(err, errNotCached) {
			missing = append(missing, plugin)

			continue
		}

		if err != nil {
			return Files{}, err
		}

		files.ByName[plugin.Name] = file
	}

	if len(missing) == 0 {
		return files, nil
	}

	names, packages := make([]string, len(missing)), make([]string, len(missing))
	for i, plugin := range missing {
		names[i], packages[i] = plugin.Name, path.Join(pin.Module.Path, plugin.Package)
	}

	s.Log.Info(fmt.Sprintf("compiling plugins %s for %s: %s", pin.Version, arch, strings.Join(names, " ")))

	if err := s.Compiler.CompileModule(ctx, pin, arch, ldflags(pin), dir, packages); err != nil {
		return Files{}, err
	}

	for _, plugin := range missing {
		built := filepath.Join(dir, plugin.Name)
		if err := verifyBuilt(built, pin, plugin, arch); err != nil {
			return Files{}, err
		}

		file, err := s.Cache.File(ctx, "plugins", key(plugin), func(_ context.Context, target string) error {
			return copyProgram(built, target)
		})
		if err != nil {
			return Files{}, err
		}

		files.ByName[plugin.Name] = file
	}

	return files, nil
}

var errNotCached = errors.New("not cached")

func notCached(context.Context, string) error { return errNotCached }

// verifyBuilt compares a program's build info with the pin: what is inspected is the shipped bytes,
// not what the build was asked for.
func verifyBuilt(name string, pin profiles.Pin, plugin profiles.Plugin, arch string) error {
	binary, err := payload.InspectFile(name)
	if err != nil {
		return fmt.Errorf("verifying %s for %s: %w", plugin.Name, arch, err)
	}

	if binary.BuildInfo == nil {
		return fmt.Errorf("verifying %s for %s: the program has no Go build info", plugin.Name, arch)
	}

	module := binary.Module()

	err = compare([]expectation{
		{"package", binary.BuildInfo.Path, path.Join(pin.Module.Path, plugin.Package)},
		{"module", module.Path, pin.Module.Path},
		{"module version", module.Version, pin.Version},
		{"module sum", module.Sum, pin.Module.Sum},
	})
	if err == nil {
		err = verifySettings(binary, arch)
	}

	if err == nil && module.Replace != nil {
		err = fmt.Errorf("build info says the module was replaced by %s", module.Replace.Path)
	}

	if err != nil {
		return fmt.Errorf("verifying %s for %s: %w", plugin.Name, arch, err)
	}

	return nil
}

// ldflags make a plugin know its own version.
func ldflags(pin profiles.Pin) string {
	if pin.Module.VersionVariable == "" {
		return ""
	}

	return fmt.Sprintf("-X %s=%s", pin.Module.VersionVariable, pin.Version)
}

// verifySettings checks the build settings that decide whether a program runs on every node of its
// architecture, and that nothing of the user's environment shows.
func verifySettings(binary payload.Binary, arch string) error {
	expected := []expectation{
		{"CGO_ENABLED", binary.Setting("CGO_ENABLED"), "0"},
		{"GOOS", binary.Setting("GOOS"), "linux"},
		{"GOARCH", binary.Setting("GOARCH"), arch},
		{"-trimpath", binary.Setting("-trimpath"), "true"},
		{"-tags", binary.Setting("-tags"), ""},
		{"GOFIPS140", binary.Setting("GOFIPS140"), ""},
		{"GOEXPERIMENT", binary.Setting("GOEXPERIMENT"), ""},
	}

	// The lowest level of each architecture runs on every node of it.
	levels := map[string]expectation{
		"amd64": {"GOAMD64", binary.Setting("GOAMD64"), "v1"},
		"arm64": {"GOARM64", binary.Setting("GOARM64"), "v8.0"},
		"arm":   {"GOARM", binary.Setting("GOARM"), "7"},
	}

	if level, ok := levels[arch]; ok {
		expected = append(expected, level)
	}

	return compare(expected)
}

type expectation struct{ what, got, want string }

func compare(expected []expectation) error {
	for _, e := range expected {
		if e.got != e.want {
			return fmt.Errorf("build info has %s %q instead of %q", e.what, e.got, e.want)
		}
	}

	return nil
}

// copyProgram copies a program so that the copy can be executed.
func copyProgram(from, to string) error {
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

	// The file may have been there already, with a mode of its own.
	return errors.Join(err, out.Chmod(0o755), out.Close())
}
