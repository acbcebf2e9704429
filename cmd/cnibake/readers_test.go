package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// Other people's tools read the layouts: Debian's skopeo, and crane.
func TestSkopeoReadsAndCopies(t *testing.T) {
	t.Parallel()
	buildertest.RequireTool(t, "skopeo")

	for _, layout := range []string{"talos", "talos-readonly", "init-container"} {
		for _, arch := range []string{"amd64", "arm64"} {
			source := "oci:" + filepath.Join(distDir(t), layout) + ":v1.9.1-1-" + arch

			var inspected struct {
				Architecture, Os string
				Labels           map[string]string
				Layers           []string
			}

			if err := json.Unmarshal([]byte(output(t, "skopeo", "--override-arch", arch, "inspect", source)), &inspected); err != nil {
				t.Fatal(err)
			}

			if inspected.Architecture != arch || inspected.Os != "linux" || len(inspected.Layers) != 1 ||
				inspected.Labels["org.opencontainers.image.version"] != "v1.9.1-1" {
				t.Errorf("%s: %+v", source, inspected)
			}

			copied := t.TempDir()
			output(t, "skopeo", "--override-arch", arch, "copy", "--preserve-digests", source, "oci:"+copied+":copy")

			want := digestOf(t, filepath.Join(distDir(t), layout), "v1.9.1-1-"+arch)
			if got := digestOf(t, copied, "copy"); got != want {
				t.Errorf("%s: the copy has %s instead of %s", source, got, want)
			}
		}
	}
}

// digestOf returns the digest of the image with the name in a layout's index.
func digestOf(t *testing.T, layout, name string) string {
	t.Helper()

	return strings.TrimSpace(output(t, "jq", "-r", `.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == "`+name+`") | .digest`,
		filepath.Join(layout, "index.json")))
}

// buildCrane builds crane's own command, at the version of the library in go.mod.
func buildCrane(t *testing.T) string {
	t.Helper()

	crane := filepath.Join(t.TempDir(), "crane")
	output(t, "go", "build", "-o", crane, "github.com/google/go-containerregistry/cmd/crane")

	return crane
}

func TestCranePushesAndValidates(t *testing.T) {
	t.Parallel()

	crane := buildCrane(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	for _, layout := range []string{"talos", "talos-readonly", "init-container"} {
		ref := strings.TrimPrefix(server.URL, "http://") + "/test/" + layout + ":v1"

		output(t, crane, "push", "--index", filepath.Join(distDir(t), layout), ref)

		// crane validate takes every layer for gzip; the other ones are read below all the same.
		validate := []string{"validate", "--remote", ref}
		if layout != "init-container" {
			validate = append(validate, "--fast")
		}

		output(t, crane, validate...)

		for _, arch := range []string{"amd64", "arm64"} {
			tarball := filepath.Join(t.TempDir(), "export.tar")
			output(t, crane, "export", "--platform", "linux/"+arch, ref, tarball)

			if table := output(t, "cnibake", "inspect", tarball); strings.Count(table, arch) != len(theSet) {
				t.Errorf("%s, %s: crane exported\n%s", layout, arch, table)
			}
		}
	}
}
