package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// maxIgnored bounds how many odd entries of a source directory are named.
const maxIgnored = 16

// source is a payload: a directory of plugin files and, usually, their manifest.
type source struct {
	dir      *directory
	manifest payload.Manifest
	// verified says that there is a manifest to hold the files to. Without one every regular file
	// with a plugin's name is a plugin, and its digest is computed when it is needed.
	verified bool
	plugins  []payload.Plugin
	notes    []string
}

// missingSourceError says that there is no source directory, which is no fault: the image that
// carries this program carries no plugins.
type missingSourceError struct {
	path string
}

func (e *missingSourceError) Error() string {
	return fmt.Sprintf("no %s in this image; skipping staging", e.path)
}

// badManifestError says that a payload has a manifest which cannot be used. plugins are those that
// would have been staged, as far as that can be told.
type badManifestError struct {
	err     error
	plugins []payload.Plugin
}

func (e *badManifestError) Error() string {
	return fmt.Sprintf("reading the payload manifest: %s; nothing is staged unverified that has one", sentence(e.err))
}

func (e *badManifestError) Unwrap() error { return e.err }

// openSource opens a payload. The manifest lies in the directory itself, or as manifest.json beside
// it, as in the container image. One that is there but unusable is an error: staging unverified
// what was meant to be verified would be worse than not staging.
func (s *system) openSource(path string) (*source, error) {
	dir, err := s.openDirectory(path)
	if errors.Is(err, unix.ENOENT) {
		return nil, &missingSourceError{path: path}
	} else if err != nil {
		return nil, err
	}

	src := &source{dir: dir}

	for _, name := range []string{
		filepath.Join(path, payload.ManifestName),
		filepath.Join(filepath.Dir(filepath.Clean(path)), "manifest.json"),
	} {
		src.manifest, err = payload.ReadManifest(name)
		if err == nil {
			src.verified = true
			src.plugins = src.manifest.Plugins

			break
		}

		if !errors.Is(err, fs.ErrNotExist) {
			_ = src.list()
			dir.close()

			return nil, &badManifestError{err: err, plugins: src.plugins}
		}
	}

	if err := src.list(); err != nil {
		dir.close()

		return nil, err
	}

	return src, nil
}

// list finds the plugins of a source without a manifest, and what in the directory is no plugin.
func (s *source) list() error {
	var ignored int

	ignore := func(text string) {
		if ignored++; ignored <= maxIgnored {
			s.notes = append(s.notes, text)
		}
	}

	err := s.dir.visit(func(name string) error {
		st, err := s.dir.lstat(name)
		if err != nil {
			return err
		}

		switch k := kindOf(st.Mode); {
		case name == payload.ManifestName:
		case s.listed(name):
			// Whatever it is, opening it as a plugin will tell.
		case k != regular:
			ignore(notPlugin(name, k))
		case s.verified:
			ignore(fmt.Sprintf("%s is not in the manifest; ignored", s.dir.join(name)))
		case !payload.ValidName(name):
			ignore(fmt.Sprintf("%q is not a plugin name; ignored", name))
		case len(s.plugins) == payload.MaxPlugins:
			return fmt.Errorf("%s holds more than %d plugins", s.dir.path, payload.MaxPlugins)
		default:
			s.plugins = append(s.plugins, payload.Plugin{Name: name, File: name, Size: st.Size})
		}

		return nil
	})
	if err != nil {
		return err
	}

	slices.SortFunc(s.plugins, func(a, b payload.Plugin) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(s.notes)

	if ignored > maxIgnored {
		s.notes = append(s.notes, fmt.Sprintf("%d more entries of %s are no plugins; ignored", ignored-maxIgnored, s.dir.path))
	}

	if len(s.plugins) == 0 {
		return fmt.Errorf("%s holds no plugins", s.dir.path)
	}

	return nil
}

func (s *source) listed(file string) bool {
	return s.verified && slices.ContainsFunc(s.plugins, func(p payload.Plugin) bool { return p.File == file })
}

func (s *source) lookup(name string) (payload.Plugin, bool) {
	i := slices.IndexFunc(s.plugins, func(p payload.Plugin) bool { return p.Name == name })
	if i < 0 {
		return payload.Plugin{}, false
	}

	return s.plugins[i], true
}

// open opens a plugin's file and checks what can be known of it without reading it all.
func (s *source) open(p payload.Plugin, arch string) (*file, error) {
	f, st, err := s.dir.open(p.File)
	if err != nil {
		return nil, err
	}

	if s.verified && st.Size != p.Size {
		err = fmt.Errorf("%s has %d bytes, its manifest says %d; the image is damaged", f.path, st.Size, p.Size)
	} else if st.Size > payload.MaxPluginSize {
		err = fmt.Errorf("%s has %d bytes, more than any plugin", f.path, st.Size)
	} else {
		err = checkProgram(f, arch)
	}

	if err != nil {
		f.close()

		return nil, err
	}

	return f, nil
}

func checkProgram(f *file, arch string) error {
	binary, err := payload.InspectELF(f)
	if err == nil {
		err = binary.Check(arch)
	}

	switch {
	case errors.Is(err, payload.ErrNotELF):
		return fmt.Errorf("%s is not an ELF program, so no plugin", f.path)
	case err != nil:
		return fmt.Errorf("%s %w", f.path, err)
	default:
		return nil
	}
}

// digestOf returns the digest a plugin must have: the manifest's, or without one the file's own.
func (s *source) digestOf(ctx context.Context, p payload.Plugin) (string, error) {
	if s.verified {
		return p.Digest, nil
	}

	f, _, err := s.dir.open(p.File)
	if err != nil {
		return "", err
	}
	defer f.close()

	return f.digest(ctx)
}
