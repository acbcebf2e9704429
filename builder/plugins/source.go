// Package plugins is where plugin binaries come from: the pinned Go module, upstream's release
// archives, or what the user has. Whatever the source, each binary is checked before it is used.
package plugins

import (
	"context"
	"io"

	"github.com/cnibake/cnibake/profiles"
)

// Source provides plugin binaries.
type Source interface {
	// Kind is what manifests and reports record: module, release, archive or directory.
	Kind() string
	// Provide returns the selected plugins of the pin for an architecture, each under its name.
	// Files it has to make go into dir, or into a cache that outlives the build.
	Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (Files, error)
}

// Files are the binaries of a source.
type Files struct {
	// ByName maps a plugin's name to its file.
	ByName map[string]File
	// Unpinned is set when nothing ties the files to the pin's sums.
	Unpinned bool
}

// File is a file whose content is known.
type File struct {
	Path string
	// Digest is "sha256:" and 64 hexadecimal digits.
	Digest string
	// Size is in bytes.
	Size int64
}

// Compiler builds programs of a Go module, reproducibly.
type Compiler interface {
	// Version identifies the toolchain.
	Version(ctx context.Context) (string, error)
	// CompileModule writes the programs of the packages, given by import path, into out, each
	// under its package's base name.
	CompileModule(ctx context.Context, pin profiles.Pin, arch, ldflags, out string, packages []string) error
}

// Cache keeps files by kind and key; fill makes a missing one.
type Cache interface {
	File(ctx context.Context, kind, key string, fill func(ctx context.Context, path string) error) (File, error)
}

// Progress shows how a download proceeds. What is written to the returned writer has arrived;
// total is in bytes, or -1 when unknown.
type Progress func(what string, total int64) io.WriteCloser
