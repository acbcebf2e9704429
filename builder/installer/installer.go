// Package installer is where the install-cni-plugins binary for a target architecture comes from:
// this checkout, our own module at our own version, or a file that the user gives.
package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/cnibake/cnibake/builder/payload"
)

const (
	modulePath = "github.com/cnibake/cnibake"
	// Name is the program's file name.
	Name = "install-cni-plugins"

	packageDir = "cmd/" + Name
)

// Source provides the installer binary.
type Source interface {
	// Provide returns the installer for an architecture; it may write into dir.
	Provide(ctx context.Context, arch, dir string) (Program, error)
}

// Program is an installer binary.
type Program struct {
	Path string
	// Digest is "sha256:" and 64 hexadecimal digits; Size is in bytes.
	Digest string
	Size   int64
	Binary payload.Binary
}

// Compiler builds Go programs reproducibly.
type Compiler interface {
	// CompileDir builds packages of the module in a directory into out.
	CompileDir(ctx context.Context, dir, arch, out string, packages []string) error
	// CompileOwn builds packages of a module, held to the h1: sum, into out.
	CompileOwn(ctx context.Context, path, version, sum, arch, out string, packages []string) error
}

// Find chooses the source: the checkout of our module that workDir lies in, else our own module at
// the version this program was built from, which own describes.
func Find(workDir string, own *debug.BuildInfo, compiler Compiler) (Source, error) {
	if root, ok := checkout(workDir); ok {
		return &CheckoutSource{Root: root, Compiler: compiler}, nil
	}

	if own == nil || own.Main.Path != modulePath || own.Main.Sum == "" || own.Main.Replace != nil {
		return nil, errors.New("cannot tell which installer belongs to this build of cnibake: run it inside its checkout, install a released version with go install, or give the binary with --installer PATH")
	}

	return &ModuleSource{Version: own.Main.Version, Sum: own.Main.Sum, Compiler: compiler}, nil
}

// checkout returns the root of the checkout of our module that a directory lies in.
func checkout(dir string) (string, bool) {
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			// The innermost go.mod decides, as it does for the go command.
			return dir, modfile.ModulePath(data) == modulePath
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}

		dir = parent
	}
}

// CheckoutSource builds the installer from a checkout of our module.
type CheckoutSource struct {
	Root     string
	Compiler Compiler
}

var _ Source = (*CheckoutSource)(nil)

// Provide compiles the installer.
func (s *CheckoutSource) Provide(ctx context.Context, arch, dir string) (Program, error) {
	if err := s.Compiler.CompileDir(ctx, s.Root, arch, dir, []string{"./" + packageDir}); err != nil {
		return Program{}, fmt.Errorf("building the installer from %s: %w", s.Root, err)
	}

	return inspect(filepath.Join(dir, Name), arch)
}

// ModuleSource builds the installer from our own module.
type ModuleSource struct {
	// Version and Sum identify the module, as in go.sum.
	Version, Sum string
	Compiler     Compiler
}

var _ Source = (*ModuleSource)(nil)

// Provide compiles the installer, downloading the module if the module cache does not have it.
func (s *ModuleSource) Provide(ctx context.Context, arch, dir string) (Program, error) {
	err := s.Compiler.CompileOwn(ctx, modulePath, s.Version, s.Sum, arch, dir, []string{path.Join(modulePath, packageDir)})
	if err != nil {
		return Program{}, fmt.Errorf("building the installer from module %s %s: %w", modulePath, s.Version, err)
	}

	return inspect(filepath.Join(dir, Name), arch)
}

// FileSource takes the installer from a file.
type FileSource struct {
	// Path of the binary; {arch} is replaced.
	Path string
}

var _ Source = (*FileSource)(nil)

// Provide checks the file.
func (s *FileSource) Provide(_ context.Context, arch, _ string) (Program, error) {
	return inspect(strings.ReplaceAll(s.Path, "{arch}", arch), arch)
}

// inspect checks an installer like a plugin: it, too, must start on any node of the architecture.
func inspect(name, arch string) (Program, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Program{}, fmt.Errorf("reading the installer: %w", err)
	}

	if !info.Mode().IsRegular() {
		return Program{}, fmt.Errorf("installer %s is not a regular file", name)
	}

	binary, err := payload.InspectFile(name)
	if err != nil {
		return Program{}, fmt.Errorf("installer %s: %w", name, err)
	}

	if err := binary.Check(arch); err != nil {
		return Program{}, fmt.Errorf("installer %s %w", name, err)
	}

	digest, size, err := payload.DigestFile(name)
	if err != nil {
		return Program{}, fmt.Errorf("reading the installer: %w", err)
	}

	return Program{Path: name, Digest: digest, Size: size, Binary: binary}, nil
}
