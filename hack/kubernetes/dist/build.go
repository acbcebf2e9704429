package dist

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// MainModule is the directory of our main module, from the packages with tests.
const MainModule = "../../.."

// commandVariable names a cnibake to test instead of one compiled from this checkout.
const commandVariable = "CNIBAKE"

// Cnibake returns the path of cnibake.
func Cnibake(t testing.TB) string {
	t.Helper()

	if path := os.Getenv(commandVariable); path != "" {
		return path
	}

	return Program(t, MainModule, "./cmd/cnibake")
}

// Installer compiles install-cni-plugins from this checkout and returns its path.
func Installer(t testing.TB) string {
	t.Helper()

	return Program(t, MainModule, "./cmd/install-cni-plugins")
}

// Build runs cnibake build with these arguments and returns the output directory.
func Build(t testing.TB, cnibake string, args ...string) string {
	t.Helper()

	out := filepath.Join(t.TempDir(), "dist")

	// In the checkout it finds the installer that belongs to it.
	cmd := exec.CommandContext(t.Context(), cnibake, append([]string{"build", "--quiet", "--arch", runtime.GOARCH, "--out", out}, args...)...)
	cmd.Dir = MainModule

	if report, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cnibake build: %v\n%s", err, report)
	}

	return out
}

// Unpack unpacks a directory of an extension's tar, which is part of an output directory, and returns
// where its content is.
func Unpack(t testing.TB, out, profile, inside string) string {
	t.Helper()

	dir := t.TempDir()
	Output(t, "tar", "-C", dir, "-xf", filepath.Join(out, profile+"-"+runtime.GOARCH+".tar"), inside)

	return filepath.Join(dir, inside)
}

// report is what a build says about itself.
type report struct {
	Version  string `json:"version"`
	Profiles []struct {
		Name     string `json:"name"`
		Payloads []struct {
			Plugins []struct{ Name, Digest string } `json:"plugins"`
		} `json:"payloads"`
	} `json:"profiles"`
}

func readReport(t testing.TB, out string) report {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(out, "build.json"))
	if err != nil {
		t.Fatal(err)
	}

	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}

	return r
}

// Version is the version that everything in an output directory has.
func Version(t testing.TB, out string) string {
	t.Helper()

	return readReport(t, out).Version
}

// Plugins are the digests of a profile's plugins by name.
func Plugins(t testing.TB, out, profile string) map[string]string {
	t.Helper()

	digests := make(map[string]string)

	for _, built := range readReport(t, out).Profiles {
		if built.Name != profile {
			continue
		}

		for _, payload := range built.Payloads {
			for _, plugin := range payload.Plugins {
				digests[plugin.Name] = plugin.Digest
			}
		}
	}

	if len(digests) == 0 {
		t.Fatalf("build.json lists no plugins for %s", profile)
	}

	return digests
}

// Program compiles a static program.
func Program(t testing.TB, module, pkg string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), filepath.Base(pkg))

	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling %s: %v\n%s", pkg, err, out)
	}

	return path
}

// Output runs a program and returns its standard output.
func Output(t testing.TB, name string, args ...string) string {
	t.Helper()

	var stderr bytes.Buffer

	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", filepath.Base(name), args, err, out, stderr.Bytes())
	}

	return string(out)
}
