package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// DirectorySource takes the plugins from a directory of binaries.
type DirectorySource struct {
	// Path of the directory; {arch} is replaced.
	Path string
}

var _ Source = (*DirectorySource)(nil)

// Kind is "directory".
func (s *DirectorySource) Kind() string { return "directory" }

// Provide copies the binaries, so that later changes to the directory cannot reach the artifacts.
// A directory has no sum of its own: the set counts as pinned only when the build info of every
// binary shows the pinned module and sum.
func (s *DirectorySource) Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (Files, error) {
	name := strings.ReplaceAll(s.Path, "{arch}", arch)
	files := Files{ByName: make(map[string]File)}

	if _, err := os.Stat(name); err != nil {
		return Files{}, fmt.Errorf("reading directory source: %w", err)
	}

	for _, plugin := range selection {
		if err := ctx.Err(); err != nil {
			return Files{}, err
		}

		from := filepath.Join(name, plugin.Name)

		info, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // reported together below
		}

		switch {
		case err != nil:
			return Files{}, fmt.Errorf("reading directory source: %w", err)
		// Following a link could take a file nobody meant; opening a FIFO would block.
		case !info.Mode().IsRegular():
			return Files{}, fmt.Errorf("directory %s: %s is not a regular file", name, plugin.Name)
		case info.Size() > payload.MaxPluginSize:
			return Files{}, fmt.Errorf("directory %s: %s has %d bytes, more than a plugin can have (%d)", name, plugin.Name, info.Size(), int64(payload.MaxPluginSize))
		}

		in, err := os.Open(from)
		if err != nil {
			return Files{}, fmt.Errorf("reading directory source: %w", err)
		}

		files.ByName[plugin.Name], err = writeFile(filepath.Join(dir, plugin.Name), io.LimitReader(in, payload.MaxPluginSize))
		in.Close()

		if err != nil {
			return Files{}, fmt.Errorf("copying %s: %w", from, err)
		}

		binary, err := payload.InspectFile(files.ByName[plugin.Name].Path)
		if err != nil {
			return Files{}, fmt.Errorf("directory %s: %s: %w", name, plugin.Name, err)
		}

		module := binary.Module()
		shown := binary.BuildInfo != nil && binary.BuildInfo.Path == path.Join(pin.Module.Path, plugin.Package) &&
			module.Path == pin.Module.Path && module.Version == pin.Version && module.Sum == pin.Module.Sum
		files.Unpinned = files.Unpinned || !shown
	}

	if err := missing(files, selection); err != nil {
		return Files{}, fmt.Errorf("directory %s %w", name, err)
	}

	return files, nil
}
