package installer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/installer"
)

// counting is a compiler and toolchain that makes any program and counts how often.
type counting struct {
	program, version string
	files            []string
	compiled         int
}

func (c *counting) CompileDir(_ context.Context, _, _, out string, _ []string) error {
	c.compiled++

	data, err := os.ReadFile(c.program)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(out, installer.Name), data, 0o755)
}

func (c *counting) CompileOwn(ctx context.Context, _, _, _, arch, out string, packages []string) error {
	return c.CompileDir(ctx, "", arch, out, packages)
}

func (c *counting) Version(context.Context) (string, error) { return c.version, nil }

func (c *counting) SourceFiles(context.Context, string, string, []string) ([]string, error) {
	return c.files, nil
}

// TestCachedInstaller: an installer is compiled again when anything it is compiled from has changed,
// and only then.
func TestCachedInstaller(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	source, module := filepath.Join(root, "main.go"), filepath.Join(root, "go.mod")

	write := func(name, text string) {
		t.Helper()

		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	write(source, "package main")
	write(module, "module m")

	files := builder.FileCache{Cache: cache.New(t.TempDir(), cache.DefaultLimit)}
	compiler := &counting{program: buildertest.Plugins(t, "arm64").Files["static"].Path, version: "go1", files: []string{source}}
	checkout := &installer.CheckoutSource{Root: root, Compiler: compiler}

	for _, step := range []struct {
		what   string
		change func()
		source installer.Source
		// compiled is how often in all.
		compiled int
	}{
		{"first", func() {}, checkout, 1},
		{"unchanged", func() {}, checkout, 1},
		{"source of the same size", func() { write(source, "package mine") }, checkout, 2},
		{"go.mod", func() { write(module, "module m // changed") }, checkout, 3},
		{"another file", func() { compiler.files = append(compiler.files, module) }, checkout, 4},
		{"toolchain", func() { compiler.version = "go2" }, checkout, 5},
		{"again", func() {}, checkout, 5},
		{"back", func() { compiler.version, compiler.files = "go1", compiler.files[:1] }, checkout, 5},
		{"own module", func() {}, &installer.ModuleSource{Version: "v1.0.0", Sum: "h1:a", Compiler: compiler}, 6},
		{"own module again", func() {}, &installer.ModuleSource{Version: "v1.0.0", Sum: "h1:a", Compiler: compiler}, 6},
		{"own module of another sum", func() {}, &installer.ModuleSource{Version: "v1.0.0", Sum: "h1:b", Compiler: compiler}, 7},
		{"a given file", func() {}, &installer.FileSource{Path: compiler.program}, 7},
	} {
		step.change()

		cached := &installer.CachedSource{Source: step.source, Toolchain: compiler, Cache: files}

		program, err := cached.Provide(t.Context(), "arm64", t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}

		if compiler.compiled != step.compiled {
			t.Errorf("%s: compiled %d times, want %d", step.what, compiler.compiled, step.compiled)
		}

		if program.Binary.Arch != "arm64" || program.Size == 0 {
			t.Errorf("%s: program is %+v", step.what, program)
		}
	}
}
