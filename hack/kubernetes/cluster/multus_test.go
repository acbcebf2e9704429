package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readonlyDir is where the extension talos-readonly has the plugins.
const readonlyDir = "/usr/local/lib/cni"

// patchMultus adds the installer to Multus's own DaemonSet. The pods that wait are created anew after it
// has rolled out: while Multus restarts, one would start with its primary network alone.
func (s *scene) patchMultus(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		patch := filepath.Join(t.TempDir(), "patch.yaml")
		if err := os.WriteFile(patch, []byte(s.manifest(t, "multus", "--image="+image)), 0o644); err != nil {
			t.Fatal(err)
		}

		args := []string{"--namespace=kube-system", "patch", multusSet, "--patch-file=" + patch}

		s.Kubectl(t, append(args, "--dry-run=server")...)
		s.deletePods(t)
		s.Kubectl(t, args...)
		s.WaitForMultus(t, s.confDir)
		s.current.expectStaged(t, s.Cluster, s.pluginDir)

		s.createPods(t)
		seen := s.attached(t)
		s.deletePods(t)

		return seen
	}
}

// kustomize writes the kustomization of Multus into a directory, with the manifest that it asks for.
func (s *scene) kustomize(t *testing.T, dir string, args ...string) {
	t.Helper()

	if err := os.WriteFile(filepath.Join(dir, "multus-daemonset-thick.yml"), []byte(MultusManifest(t)), 0o644); err != nil {
		t.Fatal(err)
	}

	s.manifest(t, "multus", append([]string{"--kustomize=" + dir}, args...)...)
}

// patchReadonly lets Multus search the read-only directory.
func (s *scene) patchReadonly(t *testing.T) string {
	dir := t.TempDir()

	s.kustomize(t, dir, "--readonly-dir")
	s.Kubectl(t, "apply", "--dry-run=server", "--kustomize="+dir)
	s.deletePods(t)
	s.Kubectl(t, "apply", "--kustomize="+dir)
	s.WaitForMultus(t, s.confDir)
	s.createPods(t)

	seen := s.attached(t)
	s.deletePods(t)

	var there []string

	for name := range s.listing(t, s.pluginDir) {
		if _, ours := s.current.plugins[name]; ours {
			there = append(there, name)
		}
	}

	if len(there) != 0 {
		t.Errorf("%s holds %s", s.pluginDir, strings.Join(there, ", "))
	}

	return fmt.Sprintf("%s; %s holds none of them", seen, s.pluginDir)
}
