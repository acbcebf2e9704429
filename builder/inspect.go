package builder

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("reading layout %s: %w", dir, err)
		}

		s := newScan(work)
		if err := oci.Files(ctx, image, rootfs.DefaultReadLimits, s.visitTar); err != nil {
			return nil, fmt.Errorf("reading layout %s: %w", dir, err)
		}

		all = append(all, s.contents(config.Architecture))
	}

	return all, nil
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

		if err := unpackArchive(ctx, name, dir); err != nil {
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
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()

	content, _, err := oci.Decompress(file)
	if err != nil {
		return err
	}
	defer content.Close()

	return rootfs.ReadTar(ctx, content, rootfs.DefaultReadLimits, visit)
}

func unpackArchive(ctx context.Context, name, dir string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()

	content, _, err := oci.Decompress(file)
	if err != nil {
		return err
	}
	defer content.Close()

	return oci.UnpackArchive(ctx, content, dir, rootfs.DefaultReadLimits)
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

// scan collects the files of an artifact and the manifest among them.
type scan struct {
	work     string
	manifest *payload.Manifest
	// beside is the directory of a manifest that lies beside its plugins; empty when it lies elsewhere.
	beside string
	files  map[string]foundFile
}

type foundFile struct {
	// binary is zero for what is no program.
	binary payload.Binary
	digest string
	size   int64
}

func newScan(work string) *scan {
	return &scan{work: work, files: make(map[string]foundFile)}
}

func (s *scan) visitTar(header *tar.Header, content io.Reader) error {
	if header.Typeflag != tar.TypeReg {
		return nil
	}

	return s.visit(path.Clean(header.Name), content)
}

func (s *scan) visit(name string, content io.Reader) error {
	// The container image keeps the manifest at its root, away from the plugins.
	const atRoot = "manifest.json"

	if path.Base(name) == payload.ManifestName || name == atRoot {
		return s.visitManifest(name, content)
	}

	buffered := bufio.NewReader(content)

	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	digester := payload.NewDigester()

	// Listed as a plugin it is an altered one.
	if !bytes.Equal(magic, []byte("\x7fELF")) {
		if _, err := io.Copy(digester, buffered); err != nil {
			return err
		}

		s.files[name] = foundFile{digest: digester.Digest(), size: digester.Size()}

		return nil
	}

	// Reading ELF needs random access, and a plugin may be too large to hold in memory.
	spool, err := os.Create(filepath.Join(s.work, "program"))
	if err != nil {
		return err
	}
	defer spool.Close()

	if _, err := io.Copy(io.MultiWriter(spool, digester), buffered); err != nil {
		return err
	}

	// An object file or a damaged program is no plugin.
	binary, err := payload.Inspect(spool)
	if err != nil {
		binary = payload.Binary{}
	}

	s.files[name] = foundFile{binary, digester.Digest(), digester.Size()}

	return nil
}

func (s *scan) visitManifest(name string, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, payload.MaxManifestSize+1))
	if err != nil {
		return err
	}

	manifest, err := payload.ParseManifest(data)

	if path.Base(name) != payload.ManifestName {
		// Any file at the root may be called so.
		if err == nil && s.beside == "" {
			s.manifest = &manifest
		}

		return nil
	}

	dir := path.Dir(name)

	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case s.beside != "" && s.beside != dir:
		return fmt.Errorf("there is a manifest in %s and in %s: inspect one of them alone", s.beside, dir)
	}

	s.manifest, s.beside = &manifest, dir

	return nil
}

func (s *scan) contents(arch string) Contents {
	if s.manifest == nil {
		return Contents{Arch: arch, Plugins: s.unlisted(arch)}
	}

	c := Contents{Arch: cmp.Or(arch, s.manifest.Arch), Manifest: s.manifest}

	for _, listed := range s.manifest.Plugins {
		found := FoundPlugin{
			Name: listed.Name, Version: listed.Version, Source: s.manifest.Source,
			Digest: listed.Digest, Size: listed.Size, State: StateMissing,
		}

		if file, ok := s.find(listed); ok {
			found.Digest, found.Size, found.Arch = file.digest, file.size, file.binary.Arch

			switch {
			case file.digest != listed.Digest:
				found.State = StateAltered
			case file.binary.Check(c.Arch) != nil:
				found.State = StateWrongArch
			default:
				found.State = StateListed
			}
		}

		c.Plugins = append(c.Plugins, found)
	}

	return c
}

// find returns the file of a listed plugin: the one beside the manifest. Where the manifest lies
// elsewhere it is the one with the right bytes, else any of that name.
func (s *scan) find(listed payload.Plugin) (foundFile, bool) {
	if s.beside != "" {
		file, ok := s.files[path.Join(s.beside, listed.File)]

		return file, ok
	}

	var (
		candidate foundFile
		ok        bool
	)

	for name, file := range s.files {
		if path.Base(name) != listed.File {
			continue
		}

		if file.digest == listed.Digest {
			return file, true
		}

		candidate, ok = file, true
	}

	return candidate, ok
}

// unlisted returns the programs that say themselves that they are reference plugins, one or several.
func (s *scan) unlisted(arch string) []FoundPlugin {
	const (
		upstream = "github.com/containernetworking/plugins"
		merged   = "cni-plugins"
	)

	var found []FoundPlugin

	for name, program := range s.files {
		info := program.binary.BuildInfo
		if info == nil || !strings.HasPrefix(info.Path, upstream+"/") && info.Path != merged {
			continue
		}

		plugin := FoundPlugin{
			Name: path.Base(name), Version: cmp.Or(program.binary.LinkedModule(upstream).Version, "unknown"), Source: "unknown",
			Digest: program.digest, Size: program.size, Arch: program.binary.Arch, State: StateUnverified,
		}

		if arch != "" && program.binary.Check(arch) != nil {
			plugin.State = StateWrongArch
		}

		found = append(found, plugin)
	}

	slices.SortFunc(found, func(a, b FoundPlugin) int { return cmp.Compare(a.Name, b.Name) })

	return found
}
