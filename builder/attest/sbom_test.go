package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
)

var epoch = time.Unix(0, 0).UTC()

// subject describes a real plugin set; a real plugin stands in for the installer.
func subject(set *plugins.Set) attest.Subject {
	other := set.Manifest.Plugins[0]

	return attest.Subject{
		Name: "cni-plugins", Version: "v1.9.1-1", Profile: "test", Created: epoch,
		Manifest: set.Manifest, Binaries: set.Binaries,
		Installer: &attest.Program{Name: "install-cni-plugins", Digest: other.Digest, Binary: set.Binaries[other.Name]},
	}
}

func encode(t *testing.T, s attest.Subject) []byte {
	t.Helper()

	data, err := attest.SBOM(s)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

func parse(t *testing.T, data []byte) *spdx.Document {
	t.Helper()

	document, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}

	return document
}

func TestDeterminism(t *testing.T) {
	t.Parallel()

	s := subject(buildertest.Plugins(t, "amd64"))
	first := encode(t, s)

	for range 5 {
		if !bytes.Equal(first, encode(t, s)) {
			t.Fatal("the same subject gives other bytes")
		}
	}

	s.Created = s.Created.In(time.FixedZone("elsewhere", 3600))
	if !bytes.Equal(first, encode(t, s)) {
		t.Error("the zone of the time shows")
	}
}

// TestNamespace: two documents with different content must not share one.
func TestNamespace(t *testing.T) {
	t.Parallel()

	seen := make(map[string]string)

	for name, change := range map[string]func(*attest.Subject){
		"original":     func(*attest.Subject) {},
		"name":         func(s *attest.Subject) { s.Name = "other" },
		"version":      func(s *attest.Subject) { s.Version = "v1.9.1-2" },
		"profile":      func(s *attest.Subject) { s.Profile = "other" },
		"plugins":      func(s *attest.Subject) { s.Manifest.Plugins = s.Manifest.Plugins[1:] },
		"installer":    func(s *attest.Subject) { s.Installer = &attest.Program{Name: "i", Digest: "sha256:x"} },
		"no installer": func(s *attest.Subject) { s.Installer = nil },
	} {
		s := subject(buildertest.Plugins(t, "amd64"))
		change(&s)

		namespace := parse(t, encode(t, s)).DocumentNamespace
		if other, ok := seen[namespace]; ok {
			t.Errorf("%s and %s share the namespace %s", name, other, namespace)
		}

		seen[namespace] = name
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()

	for arch, prefix := range map[string]string{"amd64": "", "arm64": "cni-plugins/"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			s := subject(buildertest.Plugins(t, arch))
			s.ModulePrefix = prefix
			document := parse(t, encode(t, s))

			if document.SPDXVersion != "SPDX-2.3" || document.DataLicense != "CC0-1.0" || document.DocumentName != "cni-plugins-v1.9.1-1-"+arch {
				t.Errorf("%s document %q under %s", document.SPDXVersion, document.DocumentName, document.DataLicense)
			}

			if c := document.CreationInfo; c.Created != "1970-01-01T00:00:00Z" || len(c.Creators) != 1 || c.Creators[0].Creator != "cnibake" {
				t.Errorf("creation is %+v", c)
			}

			packages := byID(t, document)
			relations := relations(t, document, packages)

			root := relations["DOCUMENT DESCRIBES"]
			if len(root) != 1 || packages[root[0]].PackageName != "cni-plugins" || packages[root[0]].PackageVersion != "v1.9.1-1" {
				t.Fatalf("the document describes %v", root)
			}

			programs := relations[string(root[0])+" CONTAINS"]
			if len(programs) != len(s.Manifest.Plugins)+1 {
				t.Errorf("it contains %v", programs)
			}

			for _, id := range programs {
				checkProgram(t, s, packages, packages[id], relations[string(id)+" DEPENDS_ON"])
			}
		})
	}
}

// checkProgram holds a program's package against the manifest, and its modules against its build info.
func checkProgram(t *testing.T, s attest.Subject, packages map[common.ElementID]*spdx.Package, p *spdx.Package, dependencies []common.ElementID) {
	t.Helper()

	plugin, isPlugin := s.Manifest.Lookup(strings.TrimPrefix(p.PackageName, "cni-plugin-"))
	binary := s.Binaries[plugin.Name]

	if !isPlugin {
		plugin = payload.Plugin{File: s.Installer.Name, Digest: s.Installer.Digest, Version: s.Installer.Binary.Module().Version}
		binary = s.Installer.Binary
	}

	if p.PackageVersion != plugin.Version || p.PackageFileName != plugin.File || checksum(p) != plugin.Digest || p.PackageLicenseDeclared != "Apache-2.0" {
		t.Errorf("%s: version %s, file %s, %s, licence %s", p.PackageName, p.PackageVersion, p.PackageFileName, checksum(p), p.PackageLicenseDeclared)
	}

	got := make(map[string]string)
	for _, id := range dependencies {
		got[packages[id].PackageName+" "+packages[id].PackageVersion] = checksum(packages[id])
	}

	want := map[string]string{s.ModulePrefix + "stdlib " + binary.BuildInfo.GoVersion: ""}
	for _, module := range append(binary.BuildInfo.Deps, &binary.BuildInfo.Main) {
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
		if err != nil {
			t.Fatal(err)
		}

		want[s.ModulePrefix+module.Path+" "+module.Version] = "sha256:" + hex.EncodeToString(sum)
	}

	for name, sum := range want {
		if other, ok := got[name]; !ok || other != sum {
			t.Errorf("%s: module %s has %q, want %q", p.PackageName, name, other, sum)
		}
	}

	if len(got) != len(want) {
		t.Errorf("%s depends on %d modules, want %d", p.PackageName, len(got), len(want))
	}

	for _, id := range dependencies {
		if refs := packages[id].PackageExternalReferences; len(refs) != 1 || !strings.HasPrefix(refs[0].Locator, "pkg:golang/") {
			t.Errorf("%s: references are %v", id, refs)
		}
	}
}

func checksum(p *spdx.Package) string {
	if len(p.PackageChecksums) != 1 || p.PackageChecksums[0].Algorithm != spdx.SHA256 {
		return ""
	}

	return "sha256:" + p.PackageChecksums[0].Value
}

// byID returns the packages by identifier, each of which must be well-formed and used once.
func byID(t *testing.T, document *spdx.Document) map[common.ElementID]*spdx.Package {
	t.Helper()

	wellFormed := regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	packages := make(map[common.ElementID]*spdx.Package)

	for _, p := range document.Packages {
		id := p.PackageSPDXIdentifier
		if packages[id] != nil || !wellFormed.MatchString(string(id)) {
			t.Errorf("identifier %q is used twice or malformed", id)
		}

		// On a Talos node a package of this name would hide Talos's own entry.
		if p.PackageName == "cni" || p.PackageName == "" || p.PackageVersion == "" || p.PackageDownloadLocation == "" {
			t.Errorf("package %q, version %q, from %q", p.PackageName, p.PackageVersion, p.PackageDownloadLocation)
		}

		packages[id] = p
	}

	return packages
}

// relations returns what each element is related to, by element and kind. Both ends must exist.
func relations(t *testing.T, document *spdx.Document, packages map[common.ElementID]*spdx.Package) map[string][]common.ElementID {
	t.Helper()

	all, seen := make(map[string][]common.ElementID), make(map[string]bool)

	for _, r := range document.Relationships {
		from, to := r.RefA.ElementRefID, r.RefB.ElementRefID
		if from != "DOCUMENT" && packages[from] == nil || packages[to] == nil {
			t.Errorf("%s %s %s: one of them does not exist", from, r.Relationship, to)
		}

		key := fmt.Sprintf("%s %s", from, r.Relationship)
		if full := fmt.Sprintf("%s %s", key, to); seen[full] {
			t.Errorf("%s is stated twice", full)
		} else {
			seen[full] = true
		}

		all[key] = append(all[key], to)
	}

	return all
}

// TestSimilarNames: SPDX identifiers allow fewer letters than module paths and plugin names.
func TestSimilarNames(t *testing.T) {
	t.Parallel()

	sum := "h1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	binary := payload.Binary{BuildInfo: &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "m", Version: "v1.0.0", Sum: sum}, Deps: []*debug.Module{
		{Path: "example.org/a_b", Version: "v1.0.0", Sum: sum},
		{Path: "example.org/a-b", Version: "v1.0.0", Sum: sum},
		{Path: "example.org/a/b", Version: "v1.0.0", Sum: sum},
		{Path: "example.org/c", Version: "v2.0.0+incompatible", Sum: sum},
		{Path: "example.org/replaced", Version: "v1.0.0", Sum: sum, Replace: &debug.Module{Path: "example.org/by", Version: "v1.2.3", Sum: sum}},
	}}}

	s := attest.Subject{Name: "cni-plugins", Version: "v1", Manifest: payload.Manifest{
		SchemaVersion: 1, Pin: payload.Pin{Version: "v1"}, Arch: "amd64", Plugins: []payload.Plugin{
			{Name: "a-b", File: "shared", Version: "v1", Digest: "sha256:" + strings.Repeat("a", 64), Size: 1},
			{Name: "a_b", File: "shared", Version: "v1", Digest: "sha256:" + strings.Repeat("a", 64), Size: 1},
		},
	}, Binaries: map[string]payload.Binary{"a-b": binary, "a_b": binary}}

	document := parse(t, encode(t, s))
	relations(t, document, byID(t, document))

	got := make(map[string]string)

	for _, p := range document.Packages {
		got[p.PackageName] = p.PackageVersion

		if p.PackageName == "example.org/c" && p.PackageExternalReferences[0].Locator != "pkg:golang/example.org/c@v2.0.0%2Bincompatible" {
			t.Errorf("package URL is %s", p.PackageExternalReferences[0].Locator)
		}
	}

	for _, name := range []string{"cni-plugin-a-b", "cni-plugin-a_b", "example.org/a_b", "example.org/a-b", "example.org/a/b", "example.org/by"} {
		if got[name] == "" {
			t.Errorf("package %s is missing", name)
		}
	}

	if got["example.org/replaced"] != "" {
		t.Error("a module that was replaced is listed")
	}
}

// TestWithoutBuildInfo: upstream's own programs may be stripped of it; they are listed by digest alone.
func TestWithoutBuildInfo(t *testing.T) {
	t.Parallel()

	s := subject(buildertest.Plugins(t, "amd64"))
	s.Binaries, s.Installer = nil, &attest.Program{Name: "install-cni-plugins", Digest: "sha256:x"}

	document := parse(t, encode(t, s))

	if want := 1 + len(s.Manifest.Plugins) + 1; len(document.Packages) != want {
		t.Errorf("%d packages, want %d", len(document.Packages), want)
	}

	if last := document.Packages[len(document.Packages)-1]; last.PackageName != "install-cni-plugins" || last.PackageVersion != "NOASSERTION" {
		t.Errorf("the installer is %s %s", last.PackageName, last.PackageVersion)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()

	set := buildertest.Plugins(t, "amd64")

	for name, test := range map[string]struct {
		change func(*attest.Subject)
		want   string
	}{
		"Talos's own name": {func(s *attest.Subject) { s.Name = "cni" }, `an SBOM package named "cni" would hide Talos's own on the node: choose another name`},
		"no plugins":       {func(s *attest.Subject) { s.Manifest.Plugins = nil }, "manifest lists no plugins"},
		"malformed sum": {func(s *attest.Subject) {
			s.Installer.Binary.BuildInfo = &debug.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{{Path: "m", Version: "v1", Sum: "h1:!"}}}
		}, `describing install-cni-plugins: module m has a malformed sum "h1:!"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := subject(set)
			test.change(&s)

			if _, err := attest.SBOM(s); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}
