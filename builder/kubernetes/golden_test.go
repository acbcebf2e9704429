package kubernetes_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/kubernetes"
	"github.com/cnibake/cnibake/profiles/distro"
)

var update = flag.Bool("update", false, "write the golden files anew")

// image is what the manifests stage from.
const image = "registry.example/install-cni-plugins:v1.9.1-1@sha256:0000000000000000000000000000000000000000000000000000000000000000"

func lookup(t *testing.T, name string) distro.Distro {
	t.Helper()

	d, err := distro.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}

	return d
}

// rendered returns the distributions for which there are manifests.
func rendered(t *testing.T) []distro.Distro {
	t.Helper()

	var all []distro.Distro

	for _, d := range distro.All() {
		if d.NoManifest == "" {
			all = append(all, d)
		}
	}

	if len(all) < 8 {
		t.Fatalf("only %d distributions have manifests", len(all))
	}

	return all
}

func staging(d distro.Distro) kubernetes.Staging {
	return kubernetes.Staging{Distro: d, Image: image}
}

// TestGolden holds every byte of what is written, comments included; go test -update writes it anew.
func TestGolden(t *testing.T) {
	t.Parallel()

	manifests := map[string]func() (*kubernetes.Manifest, error){
		"daemonset-options": func() (*kubernetes.Manifest, error) {
			s := staging(lookup(t, "k3s"))
			s.Image, s.Preloaded, s.Skip, s.Update, s.TakeOver = "registry.example/install-cni-plugins:v1.9.1-1", true, []string{"vlan", "vrf"}, "missing", true

			return kubernetes.DaemonSet(kubernetes.DaemonSetOptions{
				Staging: s, Namespace: "kube-system", MetricsAddress: "0.0.0.0:9100",
				NodeSelector: map[string]string{"example.com/cni": "on", "kubernetes.io/arch": "arm64"},
			})
		},
		"daemonset-uninstall": func() (*kubernetes.Manifest, error) {
			return kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "generic")), Uninstall: true})
		},
		"multus-talos-readonly-cilium": func() (*kubernetes.Manifest, error) {
			return kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: kubernetes.Staging{Distro: lookup(t, "talos")}, ReadOnlyDir: true, Primary: "cilium"})
		},
		"multus-generic-calico": func() (*kubernetes.Manifest, error) {
			return kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(lookup(t, "generic")), Primary: "calico"})
		},
		"multus-generic-flannel": func() (*kubernetes.Manifest, error) {
			return kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(lookup(t, "generic")), Primary: "flannel"})
		},
	}

	for _, d := range rendered(t) {
		manifests["daemonset-"+d.Name] = func() (*kubernetes.Manifest, error) {
			return kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(d)})
		}
		manifests["multus-"+d.Name] = func() (*kubernetes.Manifest, error) {
			return kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(d)})
		}
	}

	for name, manifest := range manifests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m, err := manifest()
			if err != nil {
				t.Fatal(err)
			}

			got, err := m.YAML()
			if err != nil {
				t.Fatal(err)
			}

			file := filepath.Join("testdata", name+".yaml")

			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-file +got), go test -update writes it anew:\n%s", file, diff)
			}
		})
	}
}
