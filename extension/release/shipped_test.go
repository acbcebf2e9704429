package release_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/release"
)

// statement is what a test wants of a source.
type statement struct{ Kind, Writer, Release, Plugins string }

func statements(all []release.Shipped) []statement {
	var found []statement
	for _, s := range all {
		found = append(found, statement{s.Kind, s.Writer, s.Release, s.Plugins})
	}

	return found
}

const (
	digest    = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
)

// What people have at hand, as it is printed or written in their repositories.
var recognisable = map[string]struct {
	text string
	want []statement
}{
	"a version":              {"v1.13.9\n", []statement{{"version", "", "v1.13.9", ""}}},
	"a version without v":    {" 1.13.9 ", []statement{{"version", "", "v1.13.9", ""}}},
	"an image reference":     {"ghcr.io/siderolabs/installer:v1.13.9\n", []statement{{"image reference", "talos", "v1.13.9", ""}}},
	"with a byte order mark": {"\ufeffv1.13.9\r\n", []statement{{"version", "", "v1.13.9", ""}}},
	"an imager profile": {`# our installer
arch: amd64
platform: metal
secureboot: false
version: v1.13.6
input:
  kernel:
    path: /usr/install/amd64/vmlinuz
  baseInstaller:
    imageRef: registry.example:5000/siderolabs/installer:v1.13.6
  systemExtensions:
    - imageRef: registry.example:5000/cni-plugins:v1.9.1-1
output:
  kind: installer
  outFormat: raw
`, []statement{{"imager profile", "talos", "v1.13.6", ""}}},
	"an imager profile, short, CRLF": {"version: \"v1.13.6\"\r\ninput:\r\n  systemExtensions:\r\n    - ociPath: dist/talos\r\n", []statement{{"imager profile", "talos", "v1.13.6", ""}}},
	"an imager profile with a private base": {"version: v1.13.6\narch: amd64\ninput: {baseInstaller: {imageRef: 'registry.example/ours:2026-11'}}\noutput: {kind: iso}\n",
		[]statement{{"imager profile", "talos", "v1.13.6", ""}}},
	"a machine configuration": {`version: v1alpha1
debug: false
machine:
  type: controlplane
  install:
    disk: /dev/sda
    image: factory.talos.dev/metal-installer-secureboot/` + schematic + `:v1.13.9
    wipe: false
cluster:
  controlPlane: {endpoint: "https://10.0.0.1:6443"}
`, []statement{{"machine configuration", "talos", "v1.13.9", ""}}},
	"a machine configuration of several documents": {`apiVersion: v1alpha1
kind: HostnameConfig
hostname: worker
---
version: v1alpha1
machine:
  install:
    image: registry.example:5000/mirror/siderolabs/installer:v1.12.3@` + digest + `
---
apiVersion: v1alpha1
kind: KmsgLogConfig
name: remote
url: tcp://10.0.0.1:1234/
`, []statement{{"machine configuration", "talos", "v1.12.3", ""}}},
	"a patch of a machine configuration":     {"machine:\n  install:\n    image: ghcr.io/siderolabs/installer:v1.13.9\n", []statement{{"machine configuration", "talos", "v1.13.9", ""}}},
	"a machine configuration with an anchor": {"version: v1alpha1\nx: &image ghcr.io/siderolabs/installer:v1.13.9\nmachine: {install: {image: *image}}\n", []statement{{"machine configuration", "talos", "v1.13.9", ""}}},
	"a machine configuration with an image of one's own": {"version: v1alpha1\nmachine: {install: {image: 'registry.example/nodes@" + digest + "'}}\n",
		[]statement{{"machine configuration", "talos", "", ""}}},
	"talosctl version": {"Client:\n\tTag:         v1.14.0\n\tSHA:         undefined\n\tBuilt:       \n\tGo version:  go1.26.0\n\tOS/Arch:     darwin/arm64\n" +
		"Server:\n\tNODE:        10.5.0.2\n\tTag:         v1.13.6\n\tSHA:         abc\n\tBuilt:       \n\tGo version:  go1.26.0\n\tOS/Arch:     linux/amd64\n\tEnabled:     RBAC\n" +
		"\tNODE:        10.5.0.3\n\tTag:         v1.13.9\n\tSHA:         abc\n\tBuilt:       \n\tGo version:  go1.26.0\n\tOS/Arch:     linux/amd64\n\tEnabled:     RBAC\n",
		[]statement{{"running node", "talos", "v1.13.6", ""}, {"running node", "talos", "v1.13.9", ""}}},
	"talosctl version --short": {"Client:\nTalos v1.14.0\nServer:\n\tNODE:        10.5.0.2\n\tTag:         v1.13.6\n\tSHA:         abc\n\tBuilt:       \n\tGo version:  \n\tOS/Arch:     linux/amd64\n\tEnabled:     \n",
		[]statement{{"running node", "talos", "v1.13.6", ""}}},
	"talosctl version --json": {`{"metadata":{"hostname":"10.5.0.2"},"version":{"tag":"v1.13.6","sha":"abc","os":"linux","arch":"amd64"}}` + "\n" +
		`{"metadata":{"hostname":"10.5.0.3"},"version":{"tag":"v1.13.9","sha":"abc","os":"linux","arch":"amd64"}}`,
		[]statement{{"running node", "talos", "v1.13.6", ""}, {"running node", "talos", "v1.13.9", ""}}},
	"talosctl get version -o yaml": {`node: 10.5.0.2
metadata:
    namespace: runtime
    type: Versions.runtime.talos.dev
    id: version
    version: 1
    owner: runtime.VersionController
    phase: running
spec:
    name: Talos
    version: v1.13.6
---
node: 10.5.0.3
metadata:
    namespace: runtime
    type: Versions.runtime.talos.dev
    id: version
spec:
    version: v1.13.9
`, []statement{{"running node", "talos", "v1.13.6", ""}, {"running node", "talos", "v1.13.9", ""}}},
	"talosctl get version -o json": {"{\n    \"metadata\": {\n        \"type\": \"Versions.runtime.talos.dev\"\n    },\n    \"node\": \"10.5.0.2\",\n    \"spec\": {\n        \"version\": \"v1.13.6\"\n    }\n}\n" +
		"{\n\t\"metadata\": {\"type\": \"Versions.runtime.talos.dev\"},\n\t\"node\": \"10.5.0.3\",\n\t\"spec\": {\"version\": \"v1.13.9\"}\n}\n",
		[]statement{{"running node", "talos", "v1.13.6", ""}, {"running node", "talos", "v1.13.9", ""}}},
	"kube-ovn values":             {"global:\n  registry: {address: docker.io/kubeovn}\n  images:\n    kubeovn:\n      repository: kube-ovn\n      tag: v1.15.10\n", []statement{{"kube-ovn values", "kube-ovn", "v1.15.10", ""}}},
	"kube-ovn values with digest": {"global:\n  images:\n    kubeovn:\n      tag: v1.15.10@" + digest + "\n", []statement{{"kube-ovn values", "kube-ovn", "v1.15.10", ""}}},
	"kube-ovn values of a parent": {"kube-ovn:\n  global:\n    images:\n      kubeovn:\n        tag: v1.15.8\n", []statement{{"kube-ovn values", "kube-ovn", "v1.15.8", ""}}},
	"kube-ovn values, no release": {"global: {images: {kubeovn: {tag: latest}}}\n", []statement{{"kube-ovn values", "kube-ovn", "", ""}}},
	"a Pkgfile": {"# syntax = ghcr.io/siderolabs/bldr:v0.5.3\n\nformat: v1alpha2\n\nvars:\n  TOOLS_PREFIX: ghcr.io/siderolabs/\n  # renovate: datasource=github-releases depName=containernetworking/plugins\n" +
		"  cni_version: v1.9.0\n  cni_sha256: 34bd\n  flannel_cni_version: v1.9.1-flannel3\n", []statement{{"Pkgfile", "talos", "", "v1.9.0"}}},
	"kube-ovn's Dockerfile.base": {"FROM golang:$GO_VERSION-alpine AS x\nARG ARCH\nARG CNI_PLUGINS_VERSION=v1.9.1\nRUN curl https://example.test/${CNI_PLUGINS_VERSION}\n", []statement{{"CNI_PLUGINS_VERSION", "", "", "v1.9.1"}}},
	"an SPDX document": {`{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT","name":"talos","packages":[
		{"name":"flannel-cni","versionInfo":"v1.9.1-flannel1"},
		{"name":"cni","versionInfo":"v1.9.1","externalRefs":[{"referenceCategory":"SECURITY","referenceType":"cpe23Type","referenceLocator":"cpe:2.3:a:containernetworking:plugins:v1.9.1:*:*:*:*:*:*:*"}]},
		{"name":"talos","versionInfo":"v1.13.6"}],"relationships":[{"spdxElementId":"a"}]}`, []statement{{"SPDX document", "talos", "v1.13.6", "v1.9.1"}}},
	"an SPDX document, version last": {`{"packages":[{"externalRefs":[{"referenceLocator":"cpe:2.3:a:containernetworking:plugins:v1.9.0:*"}],"versionInfo":"v1.9.0","name":"cni"}],"spdxVersion":"SPDX-2.3"}`,
		[]statement{{"SPDX document", "talos", "", "v1.9.0"}}},
}

func TestRecognise(t *testing.T) {
	t.Parallel()

	for name, test := range recognisable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			// The name says something else on purpose.
			all, err := release.Recognise("Pkgfile.json", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, statements(all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			for _, s := range all {
				if s.Source != "Pkgfile.json" {
					t.Errorf("source is %q", s.Source)
				}

				if s.Release == "" && s.Why == "" {
					t.Errorf("no release, and no reason: %+v", s)
				}

				if (s.Release != "" || s.Plugins != "") && len(s.Evidence) == 0 {
					t.Errorf("no evidence: %+v", s)
				}
			}
		})
	}
}

func TestRecogniseRefuses(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		text, want string
		unknown    bool
	}{
		"nothing":                          {"", "source: the text is empty", false},
		"white space":                      {" \n\t", "source: the text is empty", false},
		"an error page":                    {"<!DOCTYPE html><html><body>404</body></html>\n", "not recognised as a version, an image reference", true},
		"any YAML":                         {"a: 1\nb: [2]\n", "not recognised as", true},
		"broken YAML":                      {"version: v1.13.6\ninput: [\n", "not recognised as", true},
		"a list":                           {"- v1.13.6\n", "not recognised as", true},
		"two lines of versions":            {"v1.13.6\nv1.13.9\n", "not recognised as", true},
		"any JSON":                         {`{"a": 1}`, "not recognised as", true},
		"broken JSON":                      {`{"a": `, "not recognised", true},
		"binary":                           {"\x7fELF\x00", "not a text", true},
		"an extension manifest":            {"version: v1alpha1\nmetadata:\n  name: cni-plugins\n", "not recognised as", true},
		"talosctl's own version":           {"Client:\n\tTag:         v1.14.0\n\tSHA:         abc\n\tBuilt:       \n\tGo version:  \n\tOS/Arch:     linux/amd64\n", "the version of talosctl alone", false},
		"no server answers":                {"Client:\n\tTag:         v1.14.0\nServer:\n", "the version of talosctl alone", false},
		"a profile without a version":      {"arch: amd64\nplatform: metal\ninput: {}\noutput: {kind: iso}\n", "the imager profile has no version", false},
		"a profile with half a version":    {"version: v1.13\ninput: {}\n", `version: "v1.13" is not a version`, false},
		"a profile of two minds":           {"version: v1.13.6\ninput:\n  baseInstaller:\n    imageRef: ghcr.io/siderolabs/installer:v1.13.5\n", "version is v1.13.6, but input.baseInstaller in line 4 is v1.13.5", false},
		"a configuration without an image": {"version: v1alpha1\nmachine: {type: worker}\n", "no machine.install.image", false},
		"a configuration with a bad image": {"version: v1alpha1\nmachine: {install: {image: 'ghcr.io/UPPER:v1'}}\n", "line 2, machine.install.image", false},
		"values with a broken digest":      {"global: {images: {kubeovn: {tag: 'v1.15.10@sha256:12'}}}\n", "the digest is not sha256", false},
		"a Pkgfile with a branch":          {"vars:\n  cni_version: main\n", `line 2, vars.cni_version: "main" is not a version`, false},
		"a file with our marker":           {"# talos-cni-plugins-checked-against: v1.13.6\nARG CNI_PLUGINS_VERSION=v1.9.1\n", "line 1 is a marker, so this file is our side: pass it with --marker", false},
		"SPDX of another project":          {`{"spdxVersion":"SPDX-2.3","packages":[{"name":"cni","versionInfo":"v1.0.0"}]}`, "no package cni of containernetworking:plugins", false},
		"SPDX 3":                           {`{"spdxVersion":"SPDX-3.0","packages":[]}`, "not an SPDX document: version", false},
		"SPDX with two versions":           {`{"spdxVersion":"SPDX-2.3","packages":[` + cniPackage("v1.9.0") + "," + cniPackage("v1.9.1") + `]}`, "two packages cni, v1.9.0 and v1.9.1", false},
		"SPDX cut short":                   {`{"spdxVersion":"SPDX-2.3","packages":[` + cniPackage("v1.9.0"), "reading SPDX document", false},
		"SPDX without a version":           {`{"spdxVersion":"SPDX-2.3","packages":[` + cniPackage("") + `]}`, `package cni: "" is not a version`, false},
		"a node that says no version":      {"metadata: {type: Versions.runtime.talos.dev}\nnode: 10.5.0.2\nspec: {}\n", "no version", false},
		"too many documents":               {strings.Repeat("---\na: 1\n", 2000), "more than 1000 YAML documents", false},
		"too many values":                  {"a: [" + strings.Repeat("1,", 300_000) + "1]\n", "more than 200000", false},
		"deep YAML":                        {"a: " + strings.Repeat("[", 50_000), "", false},
		"deep JSON":                        {strings.Repeat(`{"a":`, 50_000), "", false},
		"an alias bomb":                    {aliasBomb(), "not recognised as", true},
		"too much text":                    {strings.Repeat("# a long comment line that says nothing at all\n", 100_000), "more than such a text can have", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			all, err := release.Recognise("source", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, %v, want %q", statements(all), err, test.want)
			}

			if test.unknown && !errors.Is(err, release.ErrUnrecognised) {
				t.Errorf("not ErrUnrecognised: %v", err)
			}

			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Errorf("not one short line: %q", err)
			}
		})
	}
}

func cniPackage(version string) string {
	return `{"name":"cni","versionInfo":"` + version + `","externalRefs":[{"referenceLocator":"cpe:2.3:a:containernetworking:plugins:x"}]}`
}

// aliasBomb is small, and expands to thousands of millions of values.
func aliasBomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		name := string(rune('0' + i))
		before := string(rune('0' + i - 1))
		text += "a" + name + ": &a" + name + " [" + strings.Repeat("*a"+before+",", 9) + "x]\n"
	}

	return text
}

func TestParseReference(t *testing.T) {
	t.Parallel()

	for reference, want := range map[string]statement{
		"ghcr.io/siderolabs/installer:v1.13.9":                                              {"", "talos", "v1.13.9", ""},
		"ghcr.io/siderolabs/imager:v1.13.9":                                                 {"", "talos", "v1.13.9", ""},
		"ghcr.io/siderolabs/talos:v1.13.9":                                                  {"", "talos", "v1.13.9", ""},
		"ghcr.io/siderolabs/installer-base:v1.13.9":                                         {"", "talos", "v1.13.9", ""},
		"docker://ghcr.io/siderolabs/installer:v1.13.9":                                     {"", "talos", "v1.13.9", ""},
		"siderolabs/installer:v1.13.9":                                                      {"", "talos", "v1.13.9", ""},
		"installer:v1.13.9":                                                                 {"", "talos", "v1.13.9", ""},
		"localhost:5000/installer:v1.13.9":                                                  {"", "talos", "v1.13.9", ""},
		"127.0.0.1:5005/siderolabs/installer:v1.13.9":                                       {"", "talos", "v1.13.9", ""},
		"[fd00::1]:5000/siderolabs/installer:v1.13.9":                                       {"", "talos", "v1.13.9", ""},
		"registry.example:5000/a/b/siderolabs/installer:v1.13.9@" + digest:                  {"", "talos", "v1.13.9", ""},
		"registry.example:5000/siderolabs/installer@" + digest:                              {"", "talos", "", ""},
		"registry.example:5000/siderolabs/installer":                                        {"", "talos", "", ""},
		"factory.talos.dev/installer/" + schematic + ":v1.13.9":                             {"", "talos", "v1.13.9", ""},
		"factory.talos.dev/installer-secureboot/" + schematic + ":v1.13.9":                  {"", "talos", "v1.13.9", ""},
		"factory.talos.dev/metal-installer/" + schematic + ":v1.13.9":                       {"", "talos", "v1.13.9", ""},
		"factory.example:8443/aws-installer-secureboot/" + schematic + ":v1.13.9@" + digest: {"", "talos", "v1.13.9", ""},
		"ghcr.io/siderolabs/installer:v1.14.0-beta.1":                                       {"", "talos", "v1.14.0-beta.1", ""},
		"ghcr.io/siderolabs/installer:latest":                                               {"", "talos", "", ""},
		"ghcr.io/siderolabs/installer:v1.13":                                                {"", "talos", "", ""},
		"docker.io/kubeovn/kube-ovn:v1.15.10":                                               {"", "kube-ovn", "v1.15.10", ""},
		"registry.example/mirror/kubeovn/kube-ovn:v1.15.10":                                 {"", "kube-ovn", "v1.15.10", ""},
		"registry.example/ours:v1.13.9":                                                     {"", "", "v1.13.9", ""},
		"registry.example/not-an-installer-at-all:v1.13.9":                                  {"", "", "v1.13.9", ""},
	} {
		got, err := release.ParseReference(reference)
		if err != nil {
			t.Errorf("%s: %v", reference, err)

			continue
		}

		want.Kind = "image reference"
		if diff := cmp.Diff([]statement{want}, statements([]release.Shipped{got})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reference, diff)
		}
	}

	for _, reference := range []string{
		"", "/", "a b", "UPPER:v1", "ghcr.io/siderolabs/installer:", "ghcr.io/siderolabs/installer@sha256:12",
		"ghcr.io/siderolabs/installer@", "ghcr.io//installer:v1", "./installer:v1", "ghcr.io/a:b:c", "-x:v1",
	} {
		if got, err := release.ParseReference(reference); err == nil {
			t.Errorf("%q is taken for %+v", reference, got)
		}
	}
}

func TestWithWriter(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		shipped     release.Shipped
		asked, want string
	}{
		{release.Shipped{Kind: "version"}, "", "talos"},
		{release.Shipped{Kind: "version"}, "kube-ovn", "kube-ovn"},
		{release.Shipped{Kind: "imager profile", Writer: "talos"}, "", "talos"},
		{release.Shipped{Kind: "imager profile", Writer: "talos"}, "talos", "talos"},
		{release.Shipped{Kind: "imager profile", Writer: "talos"}, "kube-ovn", ""},
		{release.Shipped{Kind: "image reference"}, "", ""},
		{release.Shipped{Kind: "image reference"}, "talos", "talos"},
	} {
		got, err := test.shipped.WithWriter(test.asked)
		if (err != nil) != (test.want == "") || err == nil && got.Writer != test.want {
			t.Errorf("%+v for %q: %q, %v", test.shipped, test.asked, got.Writer, err)
		}
	}
}
