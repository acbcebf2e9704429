package builder

import (
	"context"
	"sync"

	"github.com/cnibake/cnibake/builder/gotool"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// Toolchain is the user's Go toolchain, looked for when it is first needed: a build from upstream's
// binaries with a given installer needs none.
type Toolchain struct {
	find func() (*gotool.Toolchain, error)

	mu      sync.Mutex
	version string
}

var (
	_ plugins.Compiler      = (*Toolchain)(nil)
	_ plugins.MergeCompiler = (*Toolchain)(nil)
	_ installer.Compiler    = (*Toolchain)(nil)
	_ installer.Toolchain   = (*Toolchain)(nil)
)

// NewToolchain returns the toolchain of an environment given as KEY=value pairs.
func NewToolchain(ctx context.Context, environ []string) *Toolchain {
	return &Toolchain{find: sync.OnceValues(func() (*gotool.Toolchain, error) { return gotool.Find(ctx, environ) })}
}

// Version is the toolchain's version; without a toolchain the error wraps gotool.ErrNoToolchain.
func (t *Toolchain) Version(context.Context) (string, error) {
	tool, err := t.get()
	if err != nil {
		return "", err
	}

	return tool.Version(), nil
}

// UsedVersion is the version of the toolchain if it was needed so far, else empty.
func (t *Toolchain) UsedVersion() string {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.version
}

// CompileModule builds plugins of the pinned module.
func (t *Toolchain) CompileModule(ctx context.Context, pin profiles.Pin, arch, ldflags, out string, packages []string) error {
	tool, err := t.get()
	if err != nil {
		return err
	}

	return tool.BuildModule(ctx, pinnedModule(pin), arch, ldflags, out, packages)
}

// CompileMerged builds one program from generated files and the pinned module.
func (t *Toolchain) CompileMerged(ctx context.Context, pin profiles.Pin, arch, ldflags, out string,
	generate func(moduleDir, name string) (map[string][]byte, error),
) error {
	tool, err := t.get()
	if err != nil {
		return err
	}

	return tool.BuildGenerated(ctx, pinnedModule(pin), arch, ldflags, out, generate)
}

func pinnedModule(pin profiles.Pin) gotool.Module {
	return gotool.Module{Path: pin.Module.Path, Version: pin.Version, Sum: pin.Module.Sum, GoModSum: pin.Module.GoModSum}
}

// CompileDir builds programs of the module in a directory.
func (t *Toolchain) CompileDir(ctx context.Context, dir, arch, out string, packages []string) error {
	tool, err := t.get()
	if err != nil {
		return err
	}

	return tool.BuildDir(ctx, dir, arch, "", out, packages)
}

// SourceFiles lists what programs of the module in a directory are compiled from.
func (t *Toolchain) SourceFiles(ctx context.Context, dir, arch string, packages []string) ([]string, error) {
	tool, err := t.get()
	if err != nil {
		return nil, err
	}

	return tool.SourceFiles(ctx, dir, arch, packages)
}

// CompileOwn builds programs of a module whose go.mod sum nobody recorded.
func (t *Toolchain) CompileOwn(ctx context.Context, path, version, sum, arch, out string, packages []string) error {
	tool, err := t.get()
	if err != nil {
		return err
	}

	return tool.BuildModule(ctx, gotool.Module{Path: path, Version: version, Sum: sum}, arch, "", out, packages)
}

func (t *Toolchain) get() (*gotool.Toolchain, error) {
	tool, err := t.find()
	if err != nil {
		return nil, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	t.version = tool.Version()

	return tool, nil
}
