package oci_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/cnibake/cnibake/builder/oci"
)

// newImage is an image with a real plugin for an architecture.
func newImage(t *testing.T, arch string, compression oci.Compression) oci.Variant {
	t.Helper()

	plugins := arch
	if arch == "arm" {
		plugins = "arm64" // what the layer holds does not matter there
	}

	image, err := oci.NewImage(pack(t, pluginTree(t, plugins, "static"), compression), oci.ImageConfig{
		Arch: arch, Created: epoch, Annotations: map[string]string{"org.opencontainers.image.title": "test"},
	})
	if err != nil {
		t.Fatal(err)
	}

	return oci.Variant{Arch: arch, Image: image}
}

func TestImage(t *testing.T) {
	t.Parallel()

	created := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	annotations := map[string]string{"org.opencontainers.image.title": "cni-plugins", "org.opencontainers.image.version": "v1.9.1-1"}
	// The validator below cannot read zstd.
	layer := pack(t, pluginTree(t, "amd64", "static"), oci.Gzip)

	for name, test := range map[string]struct {
		config oci.ImageConfig
		want   v1.Config
	}{
		"runnable": {
			oci.ImageConfig{Arch: "amd64", Created: created, Annotations: annotations, Entrypoint: []string{"/install-cni-plugins"}, User: "0:0"},
			v1.Config{Labels: annotations, Entrypoint: []string{"/install-cni-plugins"}, User: "0:0", Env: []string{"PATH=/"}, WorkingDir: "/"},
		},
		"files only": {oci.ImageConfig{Arch: "amd64", Created: created, Annotations: annotations}, v1.Config{Labels: annotations}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			image, err := oci.NewImage(layer, test.config)
			if err != nil {
				t.Fatal(err)
			}

			if err := validate.Image(image); err != nil {
				t.Error(err)
			}

			manifest, err := image.Manifest()
			if err != nil {
				t.Fatal(err)
			}

			if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != types.OCILayer {
				t.Errorf("manifest is %+v", manifest)
			}

			if diff := cmp.Diff(annotations, manifest.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}

			file, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, file.Config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}

			want := []v1.History{{Created: v1.Time{Time: created}, CreatedBy: "cnibake build"}}
			if diff := cmp.Diff(want, file.History); diff != "" || !file.Created.Equal(created) || file.OS != "linux" || file.Architecture != "amd64" {
				t.Errorf("created %s for %s/%s; history (-want +got):\n%s", file.Created, file.OS, file.Architecture, diff)
			}

			again, err := oci.NewImage(layer, test.config)
			if err != nil {
				t.Fatal(err)
			}

			first, err := image.Digest()
			second, againErr := again.Digest()

			if err != nil || againErr != nil || first != second {
				t.Errorf("digests are %s and %s: %v %v", first, second, err, againErr)
			}
		})
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()

	for arch, want := range map[string]string{"amd64": "linux/amd64", "arm64": "linux/arm64", "arm": "linux/arm/v7"} {
		if platform := oci.Platform(arch); platform.String() != want {
			t.Errorf("platform is %s, want %s", platform.String(), want)
		}
	}
}
