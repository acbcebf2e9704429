package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
)

// dryRun lets the API server judge our DaemonSet. Its namespace comes first, which a dry run does not
// make.
func (s *scene) dryRun(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		first, rest, found := strings.Cut(s.manifest(t, "daemonset", "--image="+image), "\n---\n")
		if !found {
			t.Fatal("the manifest is not of two objects")
		}

		said := s.Apply(t, first, "--dry-run=server")
		s.Apply(t, first)
		said += s.Apply(t, rest, "--dry-run=server")

		return "`" + strings.ReplaceAll(strings.TrimSpace(said), "\n", "`, `") + "`"
	}
}

// dryRunAll lets it judge what we write for every distribution. The namespace is there, and Multus, to
// whose objects the patches apply.
func (s *scene) dryRunAll(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		var count int

		distros := distributions(t)
		for _, distro := range distros {
			other := &scene{Cluster: s.Cluster, artifacts: s.artifacts, distro: distro}

			for _, args := range [][]string{{}, {"--uninstall"}, {"--take-over", "--preloaded", "--skip=vrf"}} {
				s.Apply(t, other.manifest(t, "daemonset", append(args, "--image="+image)...), "--dry-run=server")

				count++
			}

			for _, args := range [][]string{{"--image=" + image}, {"--primary=calico"}, {"--primary=cilium"}, {"--primary=flannel"}, {"--readonly-dir"}} {
				// Only Talos has that directory.
				if args[0] == "--readonly-dir" && distro != "talos" {
					continue
				}

				dir := t.TempDir()
				other.kustomize(t, dir, args...)
				s.Kubectl(t, "apply", "--dry-run=server", "--kustomize="+dir)

				count++
			}
		}

		return fmt.Sprintf("%d manifests for %s", count, strings.Join(distros, ", "))
	}
}

// distributions are those that there are manifests for.
func distributions(t *testing.T) []string {
	t.Helper()

	text, err := os.ReadFile(dist.MainModule + "/profiles/distro/distros.json")
	if err != nil {
		t.Fatal(err)
	}

	var rows []struct {
		Name       string `json:"name"`
		NoManifest string `json:"noManifest"`
	}

	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}

	var names []string

	for _, row := range rows {
		if row.NoManifest == "" {
			names = append(names, row.Name)
		}
	}

	return names
}
