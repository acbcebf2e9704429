package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	ourModule = "github.com/cnibake/cnibake/"
	anyOfOurs = "*"
)

// allowedImports is the design's table: what each package may import of ours. A package that is not
// in it fails the test, so that every new room gets its place. "X/..." stands for X and all below it.
var allowedImports = map[string][]string{
	"profiles":           {},
	"profiles/distro":    {},
	"builder/payload":    {},
	"builder/rootfs":     {},
	"builder/sums":       {},
	"builder/gotool":     {},
	"builder/cache":      {},
	"builder/plugins":    {"profiles", "builder/payload"},
	"builder/installer":  {"builder/payload"},
	"builder/oci":        {"builder/rootfs"},
	"builder/attest":     {"builder/payload", "builder/oci"},
	"builder/airgap":     {"builder/sums", "builder/oci", "builder/attest"},
	"builder/kubernetes": {"profiles/distro"},
	"builder":            {"profiles", "profiles/distro", "builder/payload", "builder/rootfs", "builder/sums", "builder/gotool", "builder/cache", "builder/plugins", "builder/installer", "builder/oci", "builder/attest"},
	// What the merged and the separate plugins are compared by; data, for other proofs to use too.
	"builder/plugins/sameness": {},
	// Only tests import it.
	"builder/buildertest":  {"profiles", "builder/..."},
	"extension":            {"profiles", "profiles/distro", "builder/..."},
	"extension/catalog":    {"builder/oci", "builder/rootfs"},
	"extension/lint":       {"profiles", "profiles/distro", "builder/...", "extension"},
	"extension/release":    {"profiles"},
	"extension/talosimage": {"builder/oci", "extension/release"},
	"hack/bench":           {anyOfOurs},
	"cmd/cnibake":          {anyOfOurs},

	"cmd/install-cni-plugins":                      {"builder/payload", "profiles/distro", "cmd/install-cni-plugins/internal/..."},
	"cmd/install-cni-plugins/internal/doctor":      {"builder/payload", "profiles/distro", "cmd/install-cni-plugins/internal/stage"},
	"cmd/install-cni-plugins/internal/stage":       {"builder/payload", "profiles/distro"},
	"cmd/install-cni-plugins/internal/watch":       {"builder/payload", "profiles/distro", "cmd/install-cni-plugins/internal/stage"},
	"cmd/install-cni-plugins/internal/testplugins": {"builder/payload", "profiles/distro"},
}

// standardLibraryOnly lists packages that may import nothing but the standard library.
var standardLibraryOnly = []string{"builder/payload", "builder/rootfs", "builder/sums", "profiles/distro"}

type listedPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func listPackages(t *testing.T, args ...string) []listedPackage {
	t.Helper()

	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}

	var packages []listedPackage

	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage

		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}

		if err != nil {
			t.Fatal(err)
		}

		packages = append(packages, p)
	}
}

func TestImportsFollowTheDesign(t *testing.T) {
	t.Parallel()

	for _, p := range listPackages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, ourModule)

		allowed, ok := allowedImports[name]
		if !ok {
			t.Errorf("package %s has no row in the import table", name)

			continue
		}

		for _, imported := range p.Imports {
			ours, isOurs := strings.CutPrefix(imported, ourModule)

			if isOurs && !covers(allowed, ours) {
				t.Errorf("%s imports %s, which the import table does not allow", name, ours)
			}

			if !isOurs && slices.Contains(standardLibraryOnly, name) && strings.Contains(strings.Split(imported, "/")[0], ".") {
				t.Errorf("%s imports %s, but is standard library only", name, imported)
			}

			if imported == "github.com/spf13/cobra" && name != "cmd/cnibake" {
				t.Errorf("%s imports cobra: only commands may", name)
			}

			if strings.HasPrefix(imported, "k8s.io/") && name != "builder/kubernetes" {
				t.Errorf("%s imports %s: only builder/kubernetes may", name, imported)
			}
		}
	}
}

func covers(allowed []string, name string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		dir, subtree := strings.CutSuffix(a, "/...")

		return a == anyOfOurs || a == name || subtree && (name == dir || strings.HasPrefix(name, dir+"/"))
	})
}

// The installer runs on nodes: whatever it links is code that can keep a node's pods from starting.
func TestInstallerLinksNothingElse(t *testing.T) {
	t.Parallel()

	allowed := []string{"builder/payload", "profiles/distro", "cmd/install-cni-plugins/..."}

	for _, p := range listPackages(t, "-deps", "./cmd/install-cni-plugins") {
		ours, isOurs := strings.CutPrefix(p.ImportPath, ourModule)

		switch {
		case p.Standard, p.ImportPath == "golang.org/x/sys/unix":
		case isOurs && covers(allowed, ours):
		default:
			t.Errorf("install-cni-plugins links %s", p.ImportPath)
		}
	}
}

// cosign's command line would bring in 230 modules, and with them clients of every cloud's key store and
// of Kubernetes.
func TestNothingLinksCosignsCommandLine(t *testing.T) {
	t.Parallel()

	for _, p := range listPackages(t, "-deps", "./cmd/cnibake") {
		for _, forbidden := range []string{
			"github.com/sigstore/cosign/v2/cmd/", "github.com/sigstore/cosign/v2/pkg/signature", "github.com/sigstore/cosign/v2/pkg/cosign/pkcs11key",
			"k8s.io/client-go/", "github.com/sigstore/sigstore/pkg/signature/kms",
		} {
			if strings.HasPrefix(p.ImportPath+"/", forbidden) {
				t.Errorf("cnibake links %s", p.ImportPath)
			}
		}
	}

	for _, p := range listPackages(t, "-deps", "./builder/attest") {
		if strings.HasPrefix(p.ImportPath, "k8s.io/") {
			t.Errorf("builder/attest links %s", p.ImportPath)
		}
	}
}
