package attest_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
)

const (
	bin          = "rootfs/opt/cni/bin/"
	staticFile   = bin + "static"
	manifestFile = bin + ".cni-plugins.json"
)

// What was signed and attested by the right key is still held to what it is: a signer can be deceived, too.
func TestContentIsHeldToItsAttestations(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	original := open(t, filepath.Join(out, "talos"))
	stated := statements(t, out)
	signer, trust := keyPair(t)

	swap := func(arch string) string { return map[string]string{"amd64": "arm64", "arm64": "amd64"}[arch] }
	digest := digestOf(t, original, staticFile)

	for title, test := range map[string]struct {
		edit    func(arch string, files map[string][]byte)
		arch    func(string) string
		changes []string
		want    []string // none: it verifies
	}{
		"unchanged": {},
		"plugin altered": {
			edit: func(_ string, files map[string][]byte) { files[staticFile] = append(files[staticFile], 0) },
			want: []string{"plugin static", "altered"},
		},
		"plugin and manifest altered": {
			edit: func(_ string, files map[string][]byte) { replaced(t, files, digest) },
			want: []string{"plugin static has sha256:", "the provenance lists it as " + digest},
		},
		"plugin missing": {
			edit: func(_ string, files map[string][]byte) { delete(files, staticFile) },
			want: []string{"plugin static", "missing"},
		},
		"program added": {
			edit: func(_ string, files map[string][]byte) { files[bin+"backdoor"] = []byte("#!/bin/sh\n") },
			want: []string{"backdoor", "not in the provenance"},
		},
		"architectures swapped": {arch: swap, want: []string{"image linux/amd64 has"}},
		"architectures swapped, and attested so": {
			arch: swap,
			changes: []string{
				"linux/amd64", "linux/arm64", "linux/arm64", "linux/amd64", `"arch":"amd64"`, `"arch":"arm64"`, `"arch":"arm64"`, `"arch":"amd64"`,
			},
			want: []string{"wrong architecture: it is for arm64, in an image for amd64"},
		},
		"manifest missing": {
			edit: func(_ string, files map[string][]byte) { delete(files, manifestFile) },
			want: []string{"no manifest"},
		},
		"manifest of other pin": {
			edit: func(_ string, files map[string][]byte) {
				files[manifestFile] = bytes.ReplaceAll(files[manifestFile], []byte("h1:8"), []byte("h1:9"))
			},
			want: []string{"its manifest says pin v1.9.1 (h1:9", "and the provenance v1.9.1 (h1:8"},
		},
		"name added": {
			edit: func(_ string, files map[string][]byte) { addName(t, files) },
			want: []string{"plugin extra", "is not in the provenance"},
		},
		"provenance edited":                {changes: []string{strings.TrimPrefix(digest, "sha256:"), strings.Repeat("0", 64)}, want: []string{"plugin static has " + digest}},
		"provenance of other pin":          {changes: []string{`"version":"v1.9.1","module"`, `"version":"v1.6.0","module"`}, want: []string{"pin v1.6.0"}},
		"provenance of other architecture": {changes: []string{`"arch":"amd64"`, `"arch":"arm"`}, want: []string{"it is for amd64, and the provenance is of a build for arm"}},
		"provenance unpinned":              {changes: []string{`"sourceDateEpoch"`, `"allowUnpinned":true,"sourceDateEpoch"`}, want: []string{"not tied to the sums of pin"}},
		"provenance of no build":           {changes: []string{`"buildType":"https://github.com/cnibake`, `"buildType":"https://example.org`}, want: []string{"https://example.org"}},
		"provenance lists twice":           {changes: []string{`"name":"host-local"`, `"name":"static"`}, want: []string{"plugin static twice"}},
		"SBOM edited": {
			changes: []string{`"checksumValue":"` + strings.TrimPrefix(digest, "sha256:"), `"checksumValue":"` + strings.Repeat("0", 64)},
			want:    []string{"plugin static has " + digest, "SBOM"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			layout := rebuild(t, original, test.edit, test.arch)

			if _, err := attest.Sign(t.Context(), layout, signer, ""); err != nil {
				t.Fatal(err)
			}

			if _, err := attest.Attest(t.Context(), layout, signer, layout.restated(t, stated, test.changes...)); err != nil {
				t.Fatal(err)
			}

			if len(test.want) > 0 {
				refused(t, layout, buildertest.Policy(t, trust), test.want...)
			} else if _, err := attest.Verify(t.Context(), layout, buildertest.Policy(t, trust)); err != nil {
				t.Error(err)
			}
		})
	}
}

// addName gives an attested program one more name, and lists it in the manifest.
func addName(t *testing.T, files map[string][]byte) {
	t.Helper()

	listed, err := payload.ParseManifest(files[manifestFile])
	if err != nil {
		t.Fatal(err)
	}

	extra, _ := listed.Lookup("static")
	extra.Name, extra.File = "extra", "extra"
	listed.Plugins = append([]payload.Plugin{extra}, listed.Plugins...)
	files[bin+"extra"] = files[staticFile]

	if files[manifestFile], err = listed.Encode(); err != nil {
		t.Fatal(err)
	}
}

// The images are good, and the index gives each node the other one's.
func TestIndexNamesTheRightArchitecture(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	original := open(t, filepath.Join(out, "talos"))
	signer, trust := keyPair(t)

	subjects, err := original.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "swapped")

	err = oci.WriteLayout(dir, "v1", nil, []oci.Variant{{Arch: "amd64", Image: subjects[2].Image}, {Arch: "arm64", Image: subjects[1].Image}})
	if err != nil {
		t.Fatal(err)
	}

	swapped := rebuilt{Layout: open(t, dir), renamed: make(map[string]string)}
	swapped.renamed[subjects[0].Descriptor.Digest.Hex] = digests(t, swapped)[0].Hex

	sign(t, swapped, signer, swapped.restated(t, statements(t, out), "linux/amd64", "linux/arm64", "linux/arm64", "linux/amd64"))
	refused(t, swapped, buildertest.Policy(t, trust), "the index lists it for amd64, and it is for arm64", subjects[2].Descriptor.Digest.String())
}
