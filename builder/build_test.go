package builder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// TestBuildTwice: nothing but the input decides, not where it goes nor what was there.
func TestBuildTwice(t *testing.T) {
	t.Parallel()

	var snapshots []map[string]string

	for _, before := range []string{"", "an earlier build"} {
		options := realOptions(t, "talos", "generic-linux", "init-container")

		if before != "" {
			options.Profiles = options.Profiles[:1]
			if _, err := builder.Build(t.Context(), options); err != nil {
				t.Fatal(err)
			}

			out := options.Out
			options = realOptions(t, "talos", "generic-linux", "init-container")
			options.Out = out
		}

		if _, err := builder.Build(t.Context(), options); err != nil {
			t.Fatal(err)
		}

		snapshots = append(snapshots, snapshot(t, options.Out))
	}

	if diff := cmp.Diff(snapshots[0], snapshots[1]); diff != "" {
		t.Errorf("output (-first +second):\n%s", diff)
	}
}

// TestReportIsWhatWasBuilt holds build.json against the files.
func TestReportIsWhatWasBuilt(t *testing.T) {
	t.Parallel()

	options := realOptions(t, "talos", "generic-linux", "init-container")

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	encoded, err := report.Encode()
	if err != nil {
		t.Fatal(err)
	}

	written, err := os.ReadFile(filepath.Join(options.Out, builder.ReportName))
	if err != nil || string(written) != string(encoded) {
		t.Errorf("build.json is not the report: %v", err)
	}

	var decoded builder.Report
	if err := json.Unmarshal(written, &decoded); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(*report, decoded); diff != "" {
		t.Errorf("read back (-report +build.json):\n%s", diff)
	}

	if report.Version != "v1.9.1-1" || report.Source != "module" || report.Unpinned || !strings.HasPrefix(report.Toolchain, "go1.") {
		t.Errorf("report is %+v", report)
	}

	for _, profile := range report.Profiles {
		for _, artifact := range profile.Artifacts {
			checkArtifact(t, options.Out, artifact)
		}

		for _, p := range profile.Payloads {
			if (p.Installer != nil) != (profile.Format != profiles.FormatTalosExtension) {
				t.Errorf("%s for %s: installer is %+v", profile.Name, p.Arch, p.Installer)
			}
		}
	}
}

func checkArtifact(t *testing.T, out string, artifact builder.Artifact) {
	t.Helper()

	name := filepath.Join(out, artifact.Name)

	if artifact.Kind != builder.KindOCILayout {
		if digest, size, err := payload.DigestFile(name); err != nil || digest != artifact.Digest || size != artifact.Size {
			t.Errorf("%s has %s and %d bytes: %v", artifact.Name, digest, size, err)
		}

		return
	}

	index, err := layout.ImageIndexFromPath(name)
	if err != nil {
		t.Fatal(err)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	if len(manifest.Manifests) != len(artifact.Images) {
		t.Errorf("%s holds %d images", artifact.Name, len(manifest.Manifests))
	}

	for i, image := range artifact.Images {
		if d := manifest.Manifests[i]; d.Digest.String() != image.Digest || d.Platform.Architecture != image.Arch {
			t.Errorf("%s: image %d is %s for %s", artifact.Name, i, d.Digest, d.Platform)
		}

		for _, layer := range image.Layers {
			blob := filepath.Join(name, "blobs", strings.Replace(layer.Digest, ":", "/", 1))
			if digest, size, err := payload.DigestFile(blob); err != nil || digest != layer.Digest || size != layer.Size {
				t.Errorf("%s: layer %s has %s and %d bytes: %v", artifact.Name, layer.Digest, digest, size, err)
			}
		}
	}
}

// TestSecondPin builds from a pin file: moving the pin is a data change.
func TestSecondPin(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("../profiles/pins/" + profiles.DefaultPin + ".yaml")
	if err != nil {
		t.Fatal(err)
	}

	text := strings.NewReplacer("revision: 1\n", "revision: 7\n", "  - {name: vrf, kind: meta, package: plugins/meta/vrf}\n", "").Replace(string(data))
	name := filepath.Join(t.TempDir(), "mine.yaml")
	writeFile(t, name, text)

	pin, err := profiles.LoadPin(name)
	if err != nil {
		t.Fatal(err)
	}

	options := realOptions(t, "talos")
	options.Pin, options.Created = pin, time.Unix(1_800_000_000, 0)
	options.Plugins.Without = options.Plugins.Without[:len(options.Plugins.Without)-1] // the pin has no vrf

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	if report.Version != "v1.9.1-7" || !report.Created.Equal(options.Created) {
		t.Errorf("version is %s, created %s", report.Version, report.Created)
	}

	for _, contents := range inspect(t, filepath.Join(options.Out, "talos")) {
		if m := contents.Manifest; m.Revision != 7 || m.Pin.Version != "v1.9.1" || !contents.Good() {
			t.Errorf("manifest is %+v", m)
		}
	}
}

// TestUnpinnedIsRecorded: in the manifest and in the report.
func TestUnpinnedIsRecorded(t *testing.T) {
	t.Parallel()

	options := fakeOptions(t, filepath.Join(t.TempDir(), "dist"), nothing, "one")
	options.Source = unpinned{realFiles{t}}

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	if !report.Unpinned {
		t.Error("the report does not say so")
	}
}
