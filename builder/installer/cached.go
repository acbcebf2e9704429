package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Cache keeps installers by key; fill makes a missing one.
type Cache interface {
	InstallerFile(ctx context.Context, key string, fill func(ctx context.Context, path string) error) (string, error)
}

// Toolchain tells what an installer is compiled from.
type Toolchain interface {
	// Version identifies the toolchain.
	Version(ctx context.Context) (string, error)
	// SourceFiles lists the files that packages of the module in dir, and all they import outside the
	// standard library, are compiled from.
	SourceFiles(ctx context.Context, dir, arch string, packages []string) ([]string, error)
}

// CachedSource keeps what another source compiles: linking the same installer for every build would be
// most of what a build does when nothing has changed.
type CachedSource struct {
	Source    Source
	Toolchain Toolchain
	Cache     Cache
}

var _ Source = (*CachedSource)(nil)

// Provide takes the installer from the cache, or from the source.
func (s *CachedSource) Provide(ctx context.Context, arch, dir string) (Program, error) {
	origin, err := s.origin(ctx, arch)
	if err != nil {
		return Program{}, err
	}

	if origin == "" {
		return s.Source.Provide(ctx, arch, dir)
	}

	toolchain, err := s.Toolchain.Version(ctx)
	if err != nil {
		return Program{}, fmt.Errorf("building the installer: %w", err)
	}

	name, err := s.Cache.InstallerFile(ctx, strings.Join([]string{"installer", arch, toolchain, origin}, "\n"), func(ctx context.Context, target string) error {
		program, err := s.Source.Provide(ctx, arch, dir)
		if err != nil {
			return err
		}

		return copyFile(program.Path, target)
	})
	if err != nil {
		return Program{}, err
	}

	return inspect(name, arch)
}

// origin identifies what the source would compile; it is empty when it compiles nothing.
func (s *CachedSource) origin(ctx context.Context, arch string) (string, error) {
	switch source := s.Source.(type) {
	case *ModuleSource:
		return path.Join(modulePath, packageDir) + " " + source.Version + " " + source.Sum, nil
	case *CheckoutSource:
		files, err := s.Toolchain.SourceFiles(ctx, source.Root, arch, []string{"./" + packageDir})
		if err != nil {
			return "", fmt.Errorf("building the installer from %s: %w", source.Root, err)
		}

		// Its go line decides on language version and GODEBUG defaults.
		return fingerprint(append(files, filepath.Join(source.Root, "go.mod")))
	default:
		return "", nil
	}
}

// fingerprint is a hash over names and contents. Names do not matter beyond telling packages and build
// constraints apart, and a checkout may lie anywhere.
func fingerprint(files []string) (string, error) {
	hash := sha256.New()

	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading the installer's sources: %w", err)
		}

		fmt.Fprintf(hash, "%s/%s %d\n", filepath.Base(filepath.Dir(name)), filepath.Base(name), len(data))
		hash.Write(data)
	}

	return hex.EncodeToString(hash.Sum(nil)), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()

	if _, err := io.Copy(out, in); err != nil {
		return err
	}

	return out.Close()
}
