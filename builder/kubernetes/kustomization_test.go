package kubernetes_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/cnibake/cnibake/builder/kubernetes"
)

// kustomize builds a kustomization with the program itself, at the version that hack/tools pins: the
// one in Debian 12's kubectl has patches in another shape.
func kustomize(t *testing.T, dir string) []byte {
	t.Helper()

	cmd := exec.Command("go", "tool", "-modfile=../../hack/tools/go.mod", "kustomize", "build", dir)

	var stderr bytes.Buffer

	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build: %v\n%s", err, &stderr)
	}

	return out
}

func writeAll(t *testing.T, dir string, m *kubernetes.Manifest) {
	t.Helper()

	files, err := m.Kustomization()
	if err != nil {
		t.Fatal(err)
	}

	for _, f := range files {
		write(t, dir, f.Name, f.Data)
	}

	data, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil || !bytes.HasPrefix(data, []byte(kubernetes.KustomizationMark+"\n")) {
		t.Errorf("the kustomization is not marked as ours: %v\n%s", err, data)
	}
}

func TestKustomizedDaemonSet(t *testing.T) {
	t.Parallel()

	m, err := kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "k3s"))})
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	writeAll(t, dir, m)

	out := string(kustomize(t, dir))
	for _, want := range []string{"kind: Namespace", "kind: DaemonSet", "pod-security.kubernetes.io/enforce: privileged", "image: " + image} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what kustomize makes of it:\n%s", want, out)
		}
	}
}

func TestKustomizedPatch(t *testing.T) {
	t.Parallel()

	manifest, base, config := upstream(t)

	m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(lookup(t, "k3s")), Primary: "cilium"})
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	writeAll(t, dir, m)
	write(t, dir, "multus-daemonset-thick.yml", manifest)

	out := kustomize(t, dir)

	var got appsv1.DaemonSet

	for part := range bytes.SplitSeq(out, []byte("\n---\n")) {
		if bytes.Contains(part, []byte("\nkind: DaemonSet\n")) {
			if err := yaml.UnmarshalStrict(part, &got); err != nil {
				t.Fatal(err)
			}
		}
	}

	// kustomize and kubectl patch agree on all that matters; only the order of lists is their own.
	want := patched(t, base, m)
	pod, wanted := got.Spec.Template.Spec, want.Spec.Template.Spec

	if len(pod.InitContainers) != len(wanted.InitContainers) || len(pod.Volumes) != len(wanted.Volumes) ||
		len(pod.Containers[0].VolumeMounts) != len(wanted.Containers[0].VolumeMounts) {
		t.Errorf("kustomize makes another pod of it:\n%s", out)
	}

	if key := daemonConfig(t, m, config)["multusAutoconfigDir"].(string); !bytes.Contains(out, []byte(`"multusAutoconfigDir": "`+key+`"`)) {
		t.Errorf("the configuration lacks %s", key)
	}

	if !bytes.Contains(out, []byte("kind: CustomResourceDefinition")) {
		t.Error("the rest of Multus's manifest is lost")
	}
}
