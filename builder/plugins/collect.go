package plugins

import (
	"context"
	"errors"
	"fmt"
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

	set := &Set{
		Manifest: payload.Manifest{
			SchemaVersion: payload.SchemaVersion,
			Pin:           payload.Pin{Version: pin.Version, Module: pin.Module.Path, Sum: pin.Module.Sum},
			Revision:      pin.Revision,
			Arch:          arch,
			Source:        source.Kind(),
			Packaging:     string(profiles.Separate),
			Unpinned:      files.Unpinned,
		},
		Files:    make(map[string]File),
		Binaries: make(map[string]payload.Binary),
	}

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

func check(ctx context.Context, name, arch string) (payload.Binary, error) {
	binary, err := payload.InspectFile(name)
	if errors.Is(err, payload.ErrNotELF) {
		return payload.Binary{}, fmt.Errorf("%w (it is %s)", err, sniff(name))
	}

	if err != nil {
		return payload.Binary{}, err
	}

	if err := binary.Check(arch); err != nil {
		return payload.Binary{}, err
	}

	if arch != runtime.GOARCH {
		return binary, nil
	}

	_, err = payload.Probe(ctx, name)

	return binary, err
}

// version is what a binary's build info says. Upstream's own release binaries say nothing useful
// there ("(devel)"); their archive's sum stands for the pin's version then.
func version(binary payload.Binary, pin profiles.Pin, unpinned bool) string {
	const unstamped = "(devel)"

	if v := binary.Module().Version; v != "" && v != unstamped {
		return v
	}

	if unpinned {
		return "unknown"
	}

	return pin.Version
}
