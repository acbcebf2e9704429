package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
)

// theSet is written out here on purpose: the artifacts are compared with what was decided, not with
// what the code reads.
var theSet = []string{
	"bandwidth", "bridge", "firewall", "host-device", "host-local", "ipvlan", "macvlan",
	"portmap", "ptp", "sbr", "static", "tuning", "vlan", "vrf",
}

func TestDistHoldsWhatTheDesignLists(t *testing.T) {
	t.Parallel()

	entries, err := os.ReadDir(distDir(t))
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}

	want := []string{
		"SHA256SUMS", "build.json", "init-container", "talos", "talos-readonly",
		"talos.provenance.jsonl", "talos-readonly.provenance.jsonl", "generic-linux.provenance.jsonl", "init-container.provenance.jsonl",
	}

	for _, arch := range []string{"amd64", "arm64"} {
		want = append(want,
			"talos-"+arch+".tar", "talos-readonly-"+arch+".tar", "generic-linux-"+arch+".tar.gz", "init-container-"+arch+".tar",
			"talos-"+arch+".spdx.json", "talos-readonly-"+arch+".spdx.json", "generic-linux-"+arch+".spdx.json", "init-container-"+arch+".spdx.json")
	}

	slices.Sort(want)

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dist (-want +got):\n%s", diff)
	}

	sums := output(t, "sh", "-c", "cd "+distDir(t)+" && sha256sum -c SHA256SUMS && find . -type f ! -name SHA256SUMS | wc -l && wc -l < SHA256SUMS")
	if lines := bytes.Fields([]byte(sums)); !bytes.Equal(lines[len(lines)-1], lines[len(lines)-2]) {
		t.Errorf("SHA256SUMS has %s lines for %s files", lines[len(lines)-1], lines[len(lines)-2])
	}
}

// inspectJSON runs "cnibake inspect" on an artifact of the build.
func inspectJSON(t *testing.T, artifact string) []builder.Contents {
	t.Helper()

	var contents []builder.Contents
	if err := json.Unmarshal([]byte(output(t, "cnibake", "inspect", "-o", "json", filepath.Join(distDir(t), artifact))), &contents); err != nil {
		t.Fatal(err)
	}

	return contents
}

func TestEveryArtifactHoldsTheSet(t *testing.T) {
	t.Parallel()

	artifacts := map[string][]string{
		"talos":                      {"amd64", "arm64"},
		"talos-readonly":             {"amd64", "arm64"},
		"init-container":             {"amd64", "arm64"},
		"talos-amd64.tar":            {"amd64"},
		"talos-arm64.tar":            {"arm64"},
		"talos-readonly-amd64.tar":   {"amd64"},
		"talos-readonly-arm64.tar":   {"arm64"},
		"generic-linux-amd64.tar.gz": {"amd64"},
		"generic-linux-arm64.tar.gz": {"arm64"},
		"init-container-amd64.tar":   {"amd64"},
		"init-container-arm64.tar":   {"arm64"},
	}

	// Between artifacts of equal packaging the same plugin of an architecture is the same file.
	digests := make(map[string]map[string]string)

	for _, artifact := range slices.Sorted(maps.Keys(artifacts)) {
		contents := inspectJSON(t, artifact)
		if len(contents) != len(artifacts[artifact]) {
			t.Errorf("%s holds %d sets, want %d", artifact, len(contents), len(artifacts[artifact]))

			continue
		}

		for i, arch := range artifacts[artifact] {
			found := make(map[string]string)

			var names []string

			for _, plugin := range contents[i].Plugins {
				names = append(names, plugin.Name)
				found[plugin.Name] = plugin.Digest

				if plugin.Version != "v1.9.1" || plugin.Arch != arch || plugin.State != builder.StateListed || plugin.Source != "module" {
					t.Errorf("%s: %+v", artifact, plugin)
				}
			}

			if diff := cmp.Diff(theSet, names); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", artifact, arch, diff)
			}

			key := contents[i].Manifest.Packaging + " " + arch
			if digests[key] == nil {
				digests[key] = found
			} else if diff := cmp.Diff(digests[key], found); diff != "" {
				t.Errorf("%s, %s has other digests (-first +this):\n%s", artifact, arch, diff)
			}
		}
	}
}

// The layer's size is the reason why a node image can afford the plugins.
func TestTalosLayerIsSmall(t *testing.T) {
	t.Parallel()

	separate := filepath.Join(t.TempDir(), "dist")

	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"build", "-q", "talos", "--packaging", "separate", "--out", separate}, testEnviron(t), io.Discard, &stderr); code != exitGood {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}

	const megabyte = 1_000_000

	checkLayers(t, distDir(t), 2.2*megabyte)
	checkLayers(t, separate, 6.6*megabyte)
}

// checkLayers checks that every image of an extension has one layer of at most so many bytes.
func checkLayers(t *testing.T, dist string, most int64) {
	t.Helper()

	data, err := os.ReadFile(filepath.Join(dist, "build.json"))
	if err != nil {
		t.Fatal(err)
	}

	var report builder.Report
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}

	for _, profile := range report.Profiles {
		if profile.Format != "talos-extension" {
			continue
		}

		for _, artifact := range profile.Artifacts {
			for _, image := range artifact.Images {
				if len(image.Layers) != 1 || image.Layers[0].Size > most {
					t.Errorf("%s, %s: layers %+v, want one of at most %d bytes", profile.Name, image.Arch, image.Layers, most)
				}
			}
		}
	}
}

// Extracting the tarball at / must not change a directory of the host (containernetworking/plugins 1053).
func TestTarballLeavesDirectoriesAlone(t *testing.T) {
	t.Parallel()
	buildertest.RequireRoot(t)

	root := t.TempDir()
	script := `
set -eu
cd "$1"
mkdir -p real-opt usr/local/bin usr/local/share
ln -s real-opt opt
chown 0:50 usr/local usr/local/bin; chmod 2775 usr/local usr/local/bin
stat -c '%n %F %a %u:%g' opt usr usr/local usr/local/bin usr/local/share > before
tar -xpzf "$2"
stat -c '%n %F %a %u:%g' opt usr usr/local usr/local/bin usr/local/share > after
diff before after
test "$(find -L opt/cni/bin -type f -perm 0755 -user 0 -group 0 | wc -l)" = 14
test "$(stat -c '%a %u:%g' usr/local/bin/install-cni-plugins)" = "755 0:0"
test "$(stat -c '%a %u:%g' usr/local/lib/systemd/system/cni-plugins.service)" = "644 0:0"
opt/cni/bin/bridge 2>&1 </dev/null
`

	out := output(t, "sh", "-c", script, "sh", root, filepath.Join(distDir(t), "generic-linux-amd64.tar.gz"))
	if out != "CNI bridge plugin v1.9.1\nCNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n" {
		t.Errorf("the extracted bridge says %q", out)
	}

	if listing := output(t, "tar", "-tvzf", filepath.Join(distDir(t), "generic-linux-amd64.tar.gz")); bytes.Contains([]byte(listing), []byte("\nd")) {
		t.Errorf("the tarball has directory entries:\n%s", listing)
	}
}
