package builder

import (
	"context"

	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/plugins"
)

// FileCache gives each package the view of the cache that it asks for.
type FileCache struct {
	Cache *cache.Cache
}

var (
	_ plugins.Cache   = FileCache{}
	_ oci.Cache       = FileCache{}
	_ installer.Cache = FileCache{}
)

// File keeps downloads and plugins.
func (c FileCache) File(ctx context.Context, kind, key string, fill func(ctx context.Context, path string) error) (plugins.File, error) {
	entry, err := c.Cache.File(ctx, kind, key, func(ctx context.Context, path string) (string, error) {
		return "", fill(ctx, path)
	})

	return plugins.File{Path: entry.Path, Digest: "sha256:" + entry.Digest, Size: entry.Size}, err
}

// LayerFile keeps compressed layers, each with a note.
func (c FileCache) LayerFile(ctx context.Context, key string, fill func(ctx context.Context, path string) (string, error)) (path, digest, note string, size int64, err error) {
	entry, err := c.Cache.File(ctx, "layers", key, fill)

	return entry.Path, entry.Digest, entry.Note, entry.Size, err
}

// InstallerFile keeps installers.
func (c FileCache) InstallerFile(ctx context.Context, key string, fill func(ctx context.Context, path string) error) (string, error) {
	file, err := c.File(ctx, "installers", key, fill)

	return file.Path, err
}
