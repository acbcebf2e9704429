package builder

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/gotool"
	"github.com/cnibake/cnibake/builder/payload"
)

// scan collects the files of an artifact and the manifest among them.
type scan struct {
	work     string
	manifest *payload.Manifest
	// beside is the directory of a manifest that lies beside its plugins; empty when it lies elsewhere.
	beside string
	files  map[string]foundFile
	// odd is the first thing by which the files may not be what unpacking would leave.
	odd string
}

type foundFile struct {
	// binary is zero for what is no program.
	binary payload.Binary
	digest string
	size   int64
	// program is set for what can be executed.
	program bool
}

func newScan(work string) *scan {
	return &scan{work: work, files: make(map[string]foundFile)}
}

func (s *scan) visitTar(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	s.odd = cmp.Or(s.odd, s.oddity(header, name))

	if header.Typeflag != tar.TypeReg {
		return nil
	}

	if err := s.visit(name, content); err != nil {
		return err
	}

	if file, ok := s.files[name]; ok && header.Mode&0o111 != 0 {
		file.program = true
		s.files[name] = file
	}

	return nil
}

// oddity says what is unusual about an entry. Links, and whiteouts of other layers' files, can put anything in
// the place of a file that was looked at; artifacts of ours have none of it.
func (s *scan) oddity(header *tar.Header, name string) string {
	_, twice := s.files[name]

	switch {
	case !fs.ValidPath(name) || strings.Contains(name, "/.wh.") || strings.HasPrefix(name, ".wh."):
		return fmt.Sprintf("%q in it is not the path of a file", header.Name)
	case header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir:
		return fmt.Sprintf("%s in it is neither a file nor a directory", name)
	case twice:
		return name + " is in it twice"
	default:
		return ""
	}
}

// below finds a file that has files below it: which of them are there depends on who unpacks it.
func (s *scan) below() string {
	for name := range s.files {
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, ok := s.files[dir]; ok {
				return fmt.Sprintf("%s in it is a file, and there is %s", dir, name)
			}
		}
	}

	return ""
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

	s.files[name] = foundFile{binary, digester.Digest(), digester.Size(), true}

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
	programs := make(map[string]string)

	for name, file := range s.files {
		if file.program {
			programs[name] = file.digest
		}
	}

	odd := cmp.Or(s.odd, s.below())

	if s.manifest == nil {
		return Contents{Arch: arch, Plugins: s.unlisted(arch), Programs: programs, Odd: odd}
	}

	c := Contents{Arch: cmp.Or(arch, s.manifest.Arch), Manifest: s.manifest, Programs: programs, Odd: odd}

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
	const upstream = "github.com/containernetworking/plugins"

	var found []FoundPlugin

	for name, program := range s.files {
		info := program.binary.BuildInfo
		if info == nil || !strings.HasPrefix(info.Path, upstream+"/") && info.Path != gotool.ScratchModule {
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
