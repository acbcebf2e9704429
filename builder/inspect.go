package builder

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/rootfs"
)

// Contents is the plugin set found in one image, archive or directory.
type Contents struct {
	// Arch is the architecture that the image or the manifest claims; empty when neither does.
	Arch string `json:"arch"`
	// Manifest is nil when there is none.
	Manifest *payload.Manifest `json:"manifest,omitempty"`
	Plugins  []FoundPlugin     `json:"plugins"`
	// Programs maps everything that can be executed, also what no manifest lists, to its digest.
	Programs map[string]string `json:"-"`
	// Odd says why unpacking may leave something else; empty when it cannot.
	Odd string `json:"-"`
}

// FoundPlugin is one plugin as its own bytes show it.
type FoundPlugin struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Source is the manifest's; without a manifest it is "unknown".
	Source string `json:"source"`
	Digest string `json:"digest"`
	Arch   string `json:"arch"`
	Size   int64  `json:"size"`
	// State is one of the states below.
	State string `json:"state"`
}

// States of a found plugin.
const (
	// StateListed: the bytes are those that the manifest lists.
	StateListed = "ok"
	// StateUnverified: there is no manifest to compare with.
	StateUnverified = "unverified"
	StateAltered    = "altered"
	StateMissing    = "missing"
	StateWrongArch  = "wrong architecture"
)

// Good reports whether every plugin is what the manifest, if there is one, says.
func (c Contents) Good() bool {
	return !slices.ContainsFunc(c.Plugins, func(p FoundPlugin) bool {
		return p.State != StateListed && p.State != StateUnverified
	})
}

// Inspect looks into an OCI image layout, an OCI archive, a tarball (also compressed) or a directory,
// recognised by content, and returns the plugin set of each architecture in it. Nothing in it is
// trusted or executed.
func Inspect(ctx context.Context, artifact string) ([]Contents, error) {
	info, err := os.Stat(artifact)
	if err != nil {
		return nil, fmt.Errorf("inspecting: %w", err)
	}

	work, err := os.MkdirTemp("", "cnibake-inspect-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)

	switch {
	case info.IsDir() && oci.IsLayout(artifact):
		return inspectLayout(ctx, artifact, work)
	case info.IsDir():
		return one(inspectDirectory(ctx, artifact, work))
	case info.Mode().IsRegular():
		return inspectFile(ctx, artifact, work)
	default:
		return nil, fmt.Errorf("inspecting %s: neither a file nor a directory", artifact)
	}
}

func one(contents Contents, err error) ([]Contents, error) {
	if err != nil {
		return nil, err
	}

	return []Contents{contents}, nil
}

func inspectLayout(ctx context.Context, dir, work string) ([]Contents, error) {
	images, err := oci.ReadLayout(dir)
	if err != nil {
		return nil, err
	}

	var all []Contents

	for _, image := range images {
		contents, err := inspectImage(ctx, image, work)
		if err != nil {
			return nil, fmt.Errorf("reading layout %s: %w", dir, err)
		}

		all = append(all, contents)
	}

	return all, nil
}

// InspectImage looks into one image, wherever it is.
func InspectImage(ctx context.Context, image v1.Image) (Contents, error) {
	work, err := os.MkdirTemp("", "cnibake-inspect-")
	if err != nil {
		return Contents{}, err
	}
	defer os.RemoveAll(work)

	return inspectImage(ctx, image, work)
}

func inspectImage(ctx context.Context, image v1.Image, work string) (Contents, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return Contents{}, fmt.Errorf("reading the configuration: %w", err)
	}

	s := newScan(work)
	if err := oci.Files(ctx, image, rootfs.DefaultReadLimits, s.visitTar); err != nil {
		return Contents{}, err
	}

	return s.contents(config.Architecture), nil
}

// inspectFile tells an OCI archive from any other tar by the oci-layout file in it.
func inspectFile(ctx context.Context, name, work string) ([]Contents, error) {
	isArchive := false

	err := eachEntry(ctx, name, func(header *tar.Header, _ io.Reader) error {
		isArchive = isArchive || path.Clean(header.Name) == "oci-layout"

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inspecting %s: %w", name, err)
	}

	if isArchive {
		dir := filepath.Join(work, "layout")

		if err := oci.UnpackFile(ctx, name, dir); err != nil {
			return nil, fmt.Errorf("inspecting %s: %w", name, err)
		}

		return inspectLayout(ctx, dir, work)
	}

	s := newScan(work)
	if err := eachEntry(ctx, name, s.visitTar); err != nil {
		return nil, fmt.Errorf("inspecting %s: %w", name, err)
	}

	return []Contents{s.contents("")}, nil
}

func eachEntry(ctx context.Context, name string, visit func(*tar.Header, io.Reader) error) error {
	content, _, err := oci.Open(name)
	if err != nil {
		return err
	}
	defer content.Close()

	return rootfs.ReadTar(ctx, content, rootfs.DefaultReadLimits, visit)
}

func inspectDirectory(ctx context.Context, artifact, work string) (Contents, error) {
	s := newScan(work)
	count := 0

	// Walking does not follow a link, not even the first.
	dir, err := filepath.EvalSymlinks(artifact)
	if err != nil {
		return Contents{}, fmt.Errorf("inspecting: %w", err)
	}

	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if count++; count > rootfs.DefaultReadLimits.Entries {
			return fmt.Errorf("more than %d files", rootfs.DefaultReadLimits.Entries)
		}

		if err := ctx.Err(); err != nil || !entry.Type().IsRegular() {
			return err
		}

		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()

		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}

		return s.visit(filepath.ToSlash(relative), io.LimitReader(file, rootfs.DefaultReadLimits.FileSize))
	})
	if err != nil {
		return Contents{}, fmt.Errorf("inspecting %s: %w", artifact, err)
	}

	return s.contents(""), nil
}
