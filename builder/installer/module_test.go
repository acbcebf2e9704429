package installer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/installer"
)

const ownVersion = "v0.0.1"

// checkoutCopy is a copy of this checkout as a release would have it: without what is built or hidden.
func checkoutCopy(t *testing.T) string {
	t.Helper()

	const root = "../.."

	dir := t.TempDir()

	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(root, name)

		switch {
		case err != nil:
			// Another test may just have removed its files.
			return skipAbsent(err)
		case d.IsDir() && (relative == "dist" || relative == "bin" || relative != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, relative), 0o755)
		case !d.Type().IsRegular():
			return nil
		}

		data, err := os.ReadFile(name)
		if err != nil {
			return skipAbsent(err)
		}

		return os.WriteFile(filepath.Join(dir, relative), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}

	return dir
}

func skipAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// ownProxy is a module proxy in a directory that has one version of our own module, made from this
// checkout. It returns the proxy's address and the module's sum.
func ownProxy(t *testing.T) (address, sum string) {
	t.Helper()

	proxy, checkout := t.TempDir(), checkoutCopy(t)
	dir := filepath.Join(proxy, modulePath, "@v")

	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	archive, err := os.Create(filepath.Join(dir, ownVersion+".zip"))
	if err != nil {
		t.Fatal(err)
	}

	// It also shows that the module can be released: names, sizes and nested modules are as they must be.
	err = zip.CreateFromDir(archive, module.Version{Path: modulePath, Version: ownVersion}, checkout)
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}

	mod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	for name, data := range map[string]string{
		"list": ownVersion + "\n", ownVersion + ".mod": string(mod),
		ownVersion + ".info": fmt.Sprintf(`{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, ownVersion),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	sum, err = dirhash.HashZip(archive.Name(), dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}

	return "file://" + proxy, sum
}

// privateModuleCache is an empty module cache. Its directories are read-only, which cleaning up has to undo.
func privateModuleCache(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()

	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(name, 0o755)
			}

			return err
		})
	})

	return dir
}

// TestModuleSource builds the installer as a released cnibake does: from our own module at its own
// version, held to the sum in its own build info.
func TestModuleSource(t *testing.T) {
	t.Parallel()

	cached, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}

	address, sum := ownProxy(t)
	private := privateModuleCache(t)

	provide := func(ctx context.Context, sum, arch string, proxies ...string) (installer.Program, error) {
		environ := append(os.Environ(), "GOMODCACHE="+private, "GONOSUMDB="+modulePath, "GOPROXY="+strings.Join(proxies, ","))
		source := &installer.ModuleSource{Version: ownVersion, Sum: sum, Compiler: builder.NewToolchain(ctx, environ)}

		return source.Provide(ctx, arch, t.TempDir())
	}

	dependencies := "file://" + strings.TrimSpace(string(cached)) + "/cache/download"

	wrong := "h1:" + strings.Repeat("A", 43) + "="
	if _, err := provide(t.Context(), wrong, "amd64", address, dependencies); err == nil || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), sum) {
		t.Errorf("with a wrong sum the error is %v", err)
	}

	first, err := provide(t.Context(), sum, "amd64", address, dependencies)
	if err != nil {
		t.Fatal(err)
	}

	if got := first.Binary.Module(); got.Path != modulePath || got.Version != ownVersion || got.Sum != sum {
		t.Errorf("build info shows module %+v", got)
	}

	if got := first.Binary.BuildInfo.Path; got != modulePath+"/cmd/install-cni-plugins" {
		t.Errorf("build info shows package %s", got)
	}

	if filepath.Base(first.Path) != installer.Name {
		t.Errorf("the program is called %s", first.Path)
	}

	// Everything is in the module cache now.
	second, err := provide(t.Context(), sum, "amd64", "off")
	if err != nil {
		t.Fatal(err)
	}

	if first.Digest != second.Digest {
		t.Error("building again gives other bytes")
	}

	other, err := provide(t.Context(), sum, "arm64", "off")
	if err != nil {
		t.Fatal(err)
	}

	if other.Binary.Arch != "arm64" {
		t.Errorf("the program is for %s", other.Binary.Arch)
	}
}

func TestModuleSourceUnknownVersion(t *testing.T) {
	t.Parallel()

	source := &installer.ModuleSource{
		Version: "v0.0.99", Sum: "h1:" + strings.Repeat("A", 43) + "=",
		Compiler: builder.NewToolchain(t.Context(), append(os.Environ(), "GOPROXY=off")),
	}

	_, err := source.Provide(t.Context(), "amd64", t.TempDir())
	if err == nil || !strings.HasPrefix(err.Error(), "building the installer from module "+modulePath+" v0.0.99: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}

// TestCheckoutSource compiles this checkout, for both architectures and twice.
func TestCheckoutSource(t *testing.T) {
	t.Parallel()

	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}

	source := &installer.CheckoutSource{Root: root, Compiler: builder.NewToolchain(t.Context(), os.Environ())}
	digests := make(map[string]bool)

	for _, arch := range []string{"amd64", "arm64", "amd64"} {
		program, err := source.Provide(t.Context(), arch, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}

		if program.Binary.Arch != arch || program.Binary.Module().Path != modulePath {
			t.Errorf("the program is for %s, from module %+v", program.Binary.Arch, program.Binary.Module())
		}

		const limit = 4_000_000
		if program.Size >= limit {
			t.Errorf("for %s it has %d bytes, more than %d", arch, program.Size, limit)
		}

		digests[program.Digest] = true
	}

	if len(digests) != 2 {
		t.Errorf("two architectures give %d programs", len(digests))
	}
}

func TestCheckoutSourceFails(t *testing.T) {
	t.Parallel()

	root := write(t, map[string]string{"go.mod": "module " + modulePath + "\n\ngo 1.26\n"})
	source := &installer.CheckoutSource{Root: root, Compiler: builder.NewToolchain(t.Context(), os.Environ())}

	_, err := source.Provide(t.Context(), "amd64", t.TempDir())
	if err == nil || !strings.HasPrefix(err.Error(), "building the installer from "+root+": compiling for amd64: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}
