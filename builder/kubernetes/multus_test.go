package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/kubernetes"
	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

// multusManifest returns the manifest of Multus's thick plugin, from its module.
var multusManifest = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "gopkg.in/k8snetworkplumbingwg/multus-cni.v4@"+kubernetes.MultusVersion)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")

	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}

	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}

	return os.ReadFile(filepath.Join(module.Dir, "deployments", "multus-daemonset-thick.yml"))
})

// upstream returns Multus's manifest as kustomize takes it, and the DaemonSet and ConfigMap in it.
func upstream(t *testing.T) (manifest, daemonSet []byte, config string) {
	t.Helper()

	manifest, err := multusManifest()
	if err != nil {
		t.Fatalf("downloading Multus's module: %v", err)
	}

	for part := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var object struct {
			Kind string
			Data map[string]string
		}

		if err := yaml.Unmarshal(part, &object); err != nil {
			t.Fatal(err)
		}

		switch object.Kind {
		case "DaemonSet":
			daemonSet = part
		case "ConfigMap":
			config = object.Data["daemon-config.json"]
		}
	}

	if daemonSet == nil || config == "" {
		t.Fatal("Multus's manifest has no DaemonSet or no configuration")
	}

	return manifest, daemonSet, config
}

// kubectl runs kubectl without a cluster.
func kubectl(t *testing.T, args ...string) []byte {
	t.Helper()

	var stderr bytes.Buffer

	cmd := exec.Command(buildertest.RequireTool(t, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", args[0], err, &stderr)
	}

	return out
}

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()

	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}

	return file
}

// patched merges a patch into a DaemonSet as kubectl does, twice, and holds the second time to changing nothing.
func patched(t *testing.T, base []byte, m *kubernetes.Manifest) *appsv1.DaemonSet {
	t.Helper()

	data, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}

	parts := bytes.Split(data, []byte("\n---\n"))
	dir := t.TempDir()
	patch := string(parts[len(parts)-1])

	once := kubectl(t, "patch", "--local", "--type=strategic", "-o=json", "-f", write(t, dir, "base.yaml", base), "-p", patch)
	twice := kubectl(t, "patch", "--local", "--type=strategic", "-o=json", "-f", write(t, dir, "once.json", once), "-p", patch)

	if diff := cmp.Diff(string(once), string(twice)); diff != "" {
		t.Errorf("patching again changes more (-once +twice):\n%s", diff)
	}

	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(once, &set); err != nil {
		t.Fatal(err)
	}

	return &set
}

func container(t *testing.T, containers []corev1.Container, name string) corev1.Container {
	t.Helper()

	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no container %s", name)
	}

	return containers[i]
}

// mounts maps the paths in a container to the node's.
func mounts(pod corev1.PodSpec, c corev1.Container) map[string]string {
	all := map[string]string{}

	for _, m := range c.VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				all[m.MountPath] = strings.TrimSuffix(v.HostPath.Path, "/")
			}
		}
	}

	return all
}

func TestMultusPatch(t *testing.T) {
	t.Parallel()

	_, base, _ := upstream(t)

	var original appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(base, &original); err != nil {
		t.Fatal(err)
	}

	for _, d := range rendered(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()

			m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(d)})
			if err != nil {
				t.Fatal(err)
			}

			pod := patched(t, base, m).Spec.Template.Spec

			// What Multus had is all there still, and ours beside it.
			if len(pod.Containers) != 1 || len(pod.InitContainers) != 2 {
				t.Fatalf("%d containers and %d init containers", len(pod.Containers), len(pod.InitContainers))
			}

			install := container(t, pod.InitContainers, "install-cni-plugins")
			checkContainer(t, d, install)

			if got := mounts(pod, install)["/host/opt/cni/bin"]; got != d.BinDir || env(install)["CNI_INSTALL_DEST"] != "/host/opt/cni/bin" {
				t.Errorf("plugins go to %s of the node: %v", got, install.Env)
			}

			// The same binary of Multus's own goes to the directory of the runtime.
			own := container(t, pod.InitContainers, "install-multus-binary")
			if got := mounts(pod, own)["/host/opt/cni/bin"]; got != d.BinDir {
				t.Errorf("Multus's own plugin goes to %s", got)
			}

			daemon := container(t, pod.Containers, "kube-multus")
			before := container(t, original.Spec.Template.Spec.Containers, "kube-multus")

			for _, m := range before.VolumeMounts {
				if !slices.ContainsFunc(daemon.VolumeMounts, func(n corev1.VolumeMount) bool { return n.MountPath == m.MountPath }) {
					t.Errorf("the daemon has lost %s", m.MountPath)
				}
			}

			got := mounts(pod, daemon)
			checkSamePath(t, got, d.BinDir)

			if d.LinkDir != "" {
				checkSamePath(t, got, d.LinkDir)
			}

			for path, want := range map[string]string{"/host/etc/cni/net.d": d.ConfDir, "/run/netns": d.NetNSDir, "/var/lib/kubelet": d.KubeletDir} {
				if got[path] != want {
					t.Errorf("the daemon has %s of the node at %s, want %s", got[path], path, want)
				}
			}
		})
	}
}

// checkSamePath requires that a directory of the node is at the same path in the container.
func checkSamePath(t *testing.T, mounts map[string]string, dir string) {
	t.Helper()

	for path, source := range mounts {
		if rest, ok := strings.CutPrefix(dir, path); ok && (rest == "" || rest[0] == '/') && source == path {
			return
		}
	}

	t.Errorf("%s of the node is not at the same path: %v", dir, mounts)
}

// daemonConfig returns the daemon's configuration that a patch leaves the cluster with.
func daemonConfig(t *testing.T, m *kubernetes.Manifest, config string) map[string]any {
	t.Helper()

	for _, object := range objects(t, m) {
		if c, ok := object.(*corev1.ConfigMap); ok {
			config = c.Data["daemon-config.json"]
		}
	}

	var keys map[string]any
	if err := json.Unmarshal([]byte(config), &keys); err != nil {
		t.Fatal(err)
	}

	return keys
}

// TestMultusConfig: what the patch says of the daemon's configuration is Multus's own, but for what has to differ.
func TestMultusConfig(t *testing.T) {
	t.Parallel()

	_, _, config := upstream(t)

	var original map[string]any
	if err := json.Unmarshal([]byte(config), &original); err != nil {
		t.Fatal(err)
	}

	type keys = map[string]any

	tests := map[string]struct {
		distro   string
		readOnly bool
		primary  string
		want     keys
	}{
		"generic":             {"generic", false, "", keys{}},
		"k3s":                 {"k3s", false, "", keys{"binDir": "/var/lib/rancher/k3s/data/cni"}},
		"microk8s":            {"microk8s", false, "", keys{"binDir": "/var/snap/microk8s/current/opt/cni/bin"}},
		"read-only":           {"talos", true, "", keys{"binDir": "/usr/local/lib/cni"}},
		"primary":             {"generic", false, "flannel", keys{"multusAutoconfigDir": "/etc/cni/multus/net.d"}},
		"read-only, primary":  {"talos", true, "cilium", keys{"binDir": "/usr/local/lib/cni", "multusAutoconfigDir": "/etc/cni/multus/net.d"}},
		"k3s, another CNI":    {"k3s", false, "calico", keys{"binDir": "/var/lib/rancher/k3s/data/cni", "multusAutoconfigDir": "/etc/cni/multus/net.d"}},
		"other kubelet's dir": {"k0s", false, "", keys{}},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{
				Staging: staging(lookup(t, test.distro)), ReadOnlyDir: test.readOnly, Primary: test.primary,
			})
			if err != nil {
				t.Fatal(err)
			}

			got, changed := daemonConfig(t, m, config), keys{}

			for key, value := range got {
				if original[key] != value {
					changed[key] = value
				}
			}

			for key := range original {
				if _, ok := got[key]; !ok {
					t.Errorf("%s is lost", key)
				}
			}

			if diff := cmp.Diff(test.want, changed); diff != "" {
				t.Errorf("changed keys (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMultusReadOnly: the daemon resolves plugins in the order in which the runtime does, which the
// extension's profile tells.
func TestMultusReadOnly(t *testing.T) {
	t.Parallel()

	_, base, config := upstream(t)

	m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{
		Staging: kubernetes.Staging{Distro: lookup(t, "talos")}, ReadOnlyDir: true, Primary: "cilium",
	})
	if err != nil {
		t.Fatal(err)
	}

	set := patched(t, base, m)
	pod := set.Spec.Template.Spec
	daemon := container(t, pod.Containers, "kube-multus")

	if len(pod.InitContainers) != 1 {
		t.Error("without an image there is nothing to stage from")
	}

	search := []string{daemonConfig(t, m, config)["binDir"].(string)}

	search = append(search, filepath.SplitList(env(daemon)["CNI_PATH"])...)

	extension, err := profiles.Load("talos-readonly")
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(extension.Containerd.BinDirs, search); diff != "" {
		t.Errorf("search path (-want +got):\n%s", diff)
	}

	for _, dir := range search {
		checkSamePath(t, mounts(pod, daemon), dir)
	}

	// The primary CNI's configuration is read at the path that it has on the node.
	checkSamePath(t, mounts(pod, daemon), daemonConfig(t, m, config)["multusAutoconfigDir"].(string))

	if _, ok := env(daemon)["MULTUS_NODE_NAME"]; !ok {
		t.Error("the daemon has lost its node's name")
	}
}

// TestConfigReplacesPods: another configuration is another template, the same one is not.
func TestConfigReplacesPods(t *testing.T) {
	t.Parallel()

	_, base, _ := upstream(t)
	annotation := func(primary string, d distro.Distro) string {
		m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(d), Primary: primary})
		if err != nil {
			t.Fatal(err)
		}

		return patched(t, base, m).Spec.Template.Annotations["cnibake/daemon-config"]
	}

	k3s := lookup(t, "k3s")
	plain, cilium, calico := annotation("", k3s), annotation("cilium", k3s), annotation("calico", k3s)

	if plain == "" || plain == cilium || cilium != calico {
		t.Errorf("annotations are %q, %q and %q", plain, cilium, calico)
	}
}

func TestMultusRefused(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		options kubernetes.MultusOptions
		want    string
	}{
		"nothing": {kubernetes.MultusOptions{Staging: kubernetes.Staging{Distro: lookup(t, "generic")}}, "nothing of Multus's manifest has to change for generic: give an image to stage from"},
		"primary": {kubernetes.MultusOptions{Staging: staging(lookup(t, "generic")), Primary: "weave"}, `unknown primary CNI "weave": known are calico, cilium, flannel`},
		"image":   {kubernetes.MultusOptions{Staging: kubernetes.Staging{Distro: lookup(t, "k3s"), Image: "a b"}}, `"a b" is no image reference`},
	}

	for name, test := range tests {
		if _, err := kubernetes.MultusPatch(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %s", name, err, test.want)
		}
	}
}
