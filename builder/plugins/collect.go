package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// Set is a plugin set for one architecture: the manifest, and the files it speaks of.
type Set struct {
	Manifest payload.Manifest
	// Files maps the manifest's file names to files.
	Files map[string]File
	// Binaries maps plugin names to what the programs say about themselves.
	Binaries map[string]payload.Binary
}

// Collect takes the selected plugins from a source and checks each: an ELF program for the
// architecture that needs no interpreter and, on the architecture this process runs on, answers
// CNI_COMMAND=VERSION. Files it has to make go into dir.
func Collect(ctx context.Context, source Source, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (*Set, error) {
	files, err := source.Provide(ctx, pin, arch, selection, dir)
	if err != nil {
		return nil, err
	}

	set := newSet(source, pin, arch, profiles.Separate)
	set.Manifest.Unpinned = files.Unpinned

	for _, plugin := range selection {
		file := files.ByName[plugin.Name]

		binary, err := check(ctx, file.Path, arch)
		if err != nil {
			return nil, fmt.Errorf("source %s: %s for %s: %w", source.Kind(), plugin.Name, arch, err)
		}

		set.Manifest.Plugins = append(set.Manifest.Plugins, payload.Plugin{
			Name:    plugin.Name,
			File:    plugin.Name,
			Version: version(binary, pin, files.Unpinned),
			Digest:  file.Digest,
			Size:    file.Size,
		})
		set.Files[plugin.Name] = file
		set.Binaries[plugin.Name] = binary
	}

	return set, nil
}

// CollectMerged is Collect for one program that acts as every selected plugin. All names share the
// file shared, or, when that is empty, each has a copy of its own. A source that cannot merge is an error.
func CollectMerged(ctx context.Context, source Source, pin profiles.Pin, arch string, selection []profiles.Plugin, shared, dir string) (*Set, error) {
	merger, ok := source.(Merger)
	if !ok {
		return nil, fmt.Errorf("packaging multicall compiles the plugins, which source %s does not: use --source module, or --packaging separate", source.Kind())
	}

	file, err := merger.ProvideMerged(ctx, pin, arch, selection, dir)

	var refused *unmergeableError
	if errors.As(err, &refused) {
		return nil, fmt.Errorf("%w: leave it out, or build with --packaging separate", err)
	}

	if err != nil {
		return nil, err
	}

	binary, err := inspect(file.Path, arch)
	if err != nil {
		return nil, fmt.Errorf("merged program for %s: %w", arch, err)
	}

	if arch == runtime.GOARCH {
		if err := probeMerged(ctx, file.Path, selection, dir); err != nil {
			return nil, fmt.Errorf("merged program for %s: %w", arch, err)
		}
	}

	set := newSet(source, pin, arch, profiles.Multicall)

	for _, plugin := range selection {
		name := cmp.Or(shared, plugin.Name)

		set.Manifest.Plugins = append(set.Manifest.Plugins, payload.Plugin{
			Name: plugin.Name, File: name, Version: version(binary, pin, false), Digest: file.Digest, Size: file.Size,
		})
		set.Files[name] = file
		set.Binaries[plugin.Name] = binary
	}

	return set, nil
}

func newSet(source Source, pin profiles.Pin, arch string, packaging profiles.Packaging) *Set {
	return &Set{
		Manifest: payload.Manifest{
			SchemaVersion: payload.SchemaVersion,
			Pin:           payload.Pin{Version: pin.Version, Module: pin.Module.Path, Sum: pin.Module.Sum},
			Revision:      pin.Revision,
			Arch:          arch,
			Source:        source.Kind(),
			Packaging:     string(packaging),
		},
		Files:    make(map[string]File),
		Binaries: make(map[string]payload.Binary),
	}
}

// check is inspect and, on the architecture this process runs on, a first call.
func check(ctx context.Context, name, arch string) (payload.Binary, error) {
	binary, err := inspect(name, arch)
	if err != nil || arch != runtime.GOARCH {
		return binary, err
	}

	_, err = payload.Probe(ctx, name)

	return binary, err
}

// probeMerged calls the program by each of its names.
func probeMerged(ctx context.Context, program string, selection []profiles.Plugin, dir string) error {
	for _, plugin := range selection {
		link := filepath.Join(dir, plugin.Name)
		if err := os.Symlink(program, link); err != nil {
			return err
		}

		if _, err := payload.Probe(ctx, link); err != nil {
			return fmt.Errorf("called as %s: %w", plugin.Name, err)
		}
	}

	return nil
}

func inspect(name, arch string) (payload.Binary, error) {
	binary, err := payload.InspectFile(name)
	if errors.Is(err, payload.ErrNotELF) {
		return payload.Binary{}, fmt.Errorf("%w (it is %s)", err, sniff(name))
	}

	if err != nil {
		return payload.Binary{}, err
	}

	return binary, binary.Check(arch)
}

// version is what a binary's build info says. Upstream's own release binaries say nothing useful
// there ("(devel)"); their archive's sum stands for the pin's version then.
func version(binary payload.Binary, pin profiles.Pin, unpinned bool) string {
	const unstamped = "(devel)"

	if v := binary.LinkedModule(pin.Module.Path).Version; v != "" && v != unstamped {
		return v
	}

	if unpinned {
		return "unknown"
	}

	return pin.Version
}
