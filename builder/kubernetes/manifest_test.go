package kubernetes_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/cnibake/cnibake/builder/kubernetes"
	"github.com/cnibake/cnibake/profiles/distro"
)

// objects decodes a manifest as strictly as Kubernetes can: unknown and duplicate fields are errors.
func objects(t *testing.T, m *kubernetes.Manifest) (objects []any) {
	t.Helper()

	data, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}

	for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta struct{ Kind string }
		if err := yaml.Unmarshal(part, &meta); err != nil {
			t.Fatal(err)
		}

		kinds := map[string]any{"ConfigMap": &corev1.ConfigMap{}, "DaemonSet": &appsv1.DaemonSet{}, "Namespace": &corev1.Namespace{}}

		object, ok := kinds[meta.Kind]
		if !ok {
			t.Fatalf("unexpected kind %q", meta.Kind)
		}

		if err := yaml.UnmarshalStrict(part, object); err != nil {
			t.Fatalf("%s: %v", meta.Kind, err)
		}

		objects = append(objects, object)
	}

	return objects
}

func daemonSet(t *testing.T, o kubernetes.DaemonSetOptions) *appsv1.DaemonSet {
	t.Helper()

	m, err := kubernetes.DaemonSet(o)
	if err != nil {
		t.Fatal(err)
	}

	all := objects(t, m)

	return all[len(all)-1].(*appsv1.DaemonSet)
}

// checkContainer holds a container of ours to what it may do.
func checkContainer(t *testing.T, d distro.Distro, c corev1.Container) {
	t.Helper()

	s := c.SecurityContext
	if s == nil {
		t.Fatalf("%s has no security context", c.Name)
	}

	isTrue := func(b *bool) bool { return b != nil && *b }

	var added []string
	for _, capability := range s.Capabilities.Add {
		added = append(added, string(capability))
	}

	for what, bad := range map[string]bool{
		"is privileged":                        isTrue(s.Privileged),
		"may escalate its privileges":          s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation,
		"has a writable root":                  !isTrue(s.ReadOnlyRootFilesystem),
		"keeps capabilities":                   !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"has other capabilities than it needs": !slices.Equal(added, d.Capabilities),
		"has no seccomp profile":               s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault,
		"has another SELinux type":             s.SELinuxOptions == nil || s.SELinuxOptions.Type != "spc_t" || s.SELinuxOptions.Level != "s0",
		"is not root":                          s.RunAsUser == nil || *s.RunAsUser != 0,
		"requests no CPU":                      c.Resources.Requests.Cpu().IsZero(),
		"requests no memory":                   c.Resources.Requests.Memory().IsZero(),
		"has a memory limit below 32Mi":        c.Resources.Limits.Memory().Cmp(resource.MustParse("32Mi")) < 0,
		"has a CPU limit":                      !c.Resources.Limits.Cpu().IsZero(),
	} {
		if bad {
			t.Errorf("%s %s", c.Name, what)
		}
	}

	for _, m := range c.VolumeMounts {
		if m.MountPropagation != nil {
			t.Errorf("%s mounts %s with propagation", c.Name, m.MountPath)
		}
	}
}

func env(c corev1.Container) map[string]string {
	all := map[string]string{}
	for _, e := range c.Env {
		all[e.Name] = e.Value
	}

	return all
}

func TestDaemonSet(t *testing.T) {
	t.Parallel()

	for _, d := range rendered(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()

			set := daemonSet(t, kubernetes.DaemonSetOptions{Staging: staging(d)})
			pod := set.Spec.Template.Spec

			if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
				t.Fatalf("%d init containers, %d containers", len(pod.InitContainers), len(pod.Containers))
			}

			install, watch := pod.InitContainers[0], pod.Containers[0]
			checkContainer(t, d, install)
			checkContainer(t, d, watch)

			for what, bad := range map[string]bool{
				"has no host network":            !pod.HostNetwork,
				"shares the node's processes":    pod.HostPID || pod.HostIPC,
				"mounts a token":                 pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken,
				"does not tolerate every taint":  len(pod.Tolerations) != 1 || !reflect.DeepEqual(pod.Tolerations[0], corev1.Toleration{Operator: corev1.TolerationOpExists}),
				"has another priority":           pod.PriorityClassName != "system-node-critical",
				"takes several nodes at a time":  set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue() != 1,
				"runs on other than Linux":       pod.NodeSelector["kubernetes.io/os"] != "linux",
				"installs nothing":               install.Args[0] != "install",
				"does not watch":                 watch.Args[0] != "watch",
				"has no probes":                  watch.LivenessProbe == nil || watch.ReadinessProbe == nil,
				"waits for plugins to be ready":  watch.ReadinessProbe.HTTPGet.Path == "/readyz",
				"takes names of the platform":    env(install)["CNI_INSTALL_TAKE_OVER"] != "",
				"does not know the platform":     len(d.PlatformOwned) > 0 && env(install)["CNI_INSTALL_DISTRO"] != d.Name,
				"reports to a platform unknown":  len(d.PlatformOwned) > 0 && env(watch)["CNI_INSTALL_DISTRO"] != d.Name,
				"selects pods it does not label": !reflect.DeepEqual(set.Spec.Selector.MatchLabels, set.Spec.Template.Labels),
			} {
				if bad {
					t.Errorf("the pod %s", what)
				}
			}

			checkDirectories(t, d, pod)
		})
	}
}

// checkDirectories holds the pod to the directories of the node that it needs.
func checkDirectories(t *testing.T, d distro.Distro, pod corev1.PodSpec) {
	t.Helper()

	writable := map[string]bool{d.BinDir: true, "/var/lib/cni-plugins": true}
	readOnly := map[string]bool{}

	for _, dir := range []string{d.LinkDir, d.OverlayUpper} {
		if dir != "" {
			readOnly[dir] = true
		}
	}

	paths := map[string]string{}

	for _, v := range pod.Volumes {
		if v.HostPath == nil || !writable[v.HostPath.Path] && !readOnly[v.HostPath.Path] {
			t.Errorf("volume %s is none that is needed", v.Name)

			continue
		}

		if d.KubeletInContainer && v.HostPath.Type != nil {
			t.Errorf("volume %s has a type, which the kubelet of %s cannot check", v.Name, d.Name)
		}

		paths[v.Name] = v.HostPath.Path
	}

	if len(paths) != len(writable)+len(readOnly) {
		t.Errorf("volumes %v, want %v and %v", paths, writable, readOnly)
	}

	for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly && readOnly[paths[m.Name]] {
				t.Errorf("%s may write to %s", c.Name, paths[m.Name])
			}
		}

		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == env(c)["CNI_INSTALL_DEST"] && paths[m.Name] == d.BinDir
		}) {
			t.Errorf("%s does not work on the bin directory: %v", c.Name, c.Env)
		}
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()

	m, err := kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "generic")), Namespace: "net"})
	if err != nil {
		t.Fatal(err)
	}

	namespace := objects(t, m)[0].(*corev1.Namespace)
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if got := namespace.Labels["pod-security.kubernetes.io/"+mode]; got != "privileged" {
			t.Errorf("pod security %s is %q: no pod would appear", mode, got)
		}
	}

	if namespace.Name != "net" || objects(t, m)[1].(*appsv1.DaemonSet).Namespace != "net" {
		t.Error("the DaemonSet is not in its namespace")
	}

	// kube-system is not ours: deleting the manifest must not try to delete it.
	m, err = kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "generic")), Namespace: "kube-system"})
	if err != nil {
		t.Fatal(err)
	}

	if all := objects(t, m); len(all) != 1 {
		t.Errorf("%d objects, want the DaemonSet alone", len(all))
	}
}

// TestProbes: the kubelet has to reach the watch wherever that listens.
func TestProbes(t *testing.T) {
	t.Parallel()

	for address, host := range map[string]string{
		"":               "127.0.0.1",
		"127.0.0.1:9797": "127.0.0.1",
		"0.0.0.0:9100":   "127.0.0.1",
		"[::]:9100":      "::1",
		"[::1]:9100":     "::1",
		"192.0.2.1:9100": "192.0.2.1",
	} {
		set := daemonSet(t, kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "generic")), MetricsAddress: address})
		watch := set.Spec.Template.Spec.Containers[0]

		if got := watch.LivenessProbe.HTTPGet.Host; got != host {
			t.Errorf("%q: the probe asks %s, want %s", address, got, host)
		}

		listen := "--listen=" + address
		if address == "" {
			listen = "--listen=127.0.0.1:9797"
		}

		if !slices.Contains(watch.Args, listen) {
			t.Errorf("%q: arguments are %v", address, watch.Args)
		}

		if port := watch.Ports[0]; !strings.HasSuffix(listen, fmt.Sprintf(":%d", port.ContainerPort)) || port.HostPort != port.ContainerPort || port.Name != watch.ReadinessProbe.HTTPGet.Port.StrVal {
			t.Errorf("%q: the port is %+v", address, port)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()

	type options = kubernetes.DaemonSetOptions

	tests := map[string]struct {
		change func(*options)
		want   string
	}{
		"update":          {func(o *options) { o.Update = "never" }, `unknown update policy "never": known are always, owned, missing`},
		"namespace":       {func(o *options) { o.Namespace = "Net_Work" }, `namespace "Net_Work": a lowercase RFC 1123 label must`},
		"selector key":    {func(o *options) { o.NodeSelector = map[string]string{"a b": "c"} }, `node selector: label "a b": name part must consist of`},
		"selector value":  {func(o *options) { o.NodeSelector = map[string]string{"a": "b c"} }, `node selector: value "b c" of label a: a valid label must`},
		"image":           {func(o *options) { o.Image = "UPPER/case" }, `"UPPER/case" is no image reference`},
		"no image":        {func(o *options) { o.Image = "" }, `"" is no image reference`},
		"uninstall, skip": {func(o *options) { o.Uninstall, o.Skip = true, []string{"vlan"} }, "to uninstall is to take back whatever was written"},
		"address":         {func(o *options) { o.MetricsAddress = "localhost:9797" }, `metrics address "localhost:9797" is not IP:PORT, such as 127.0.0.1:9797`},
		"port":            {func(o *options) { o.MetricsAddress = "127.0.0.1:0" }, `the port has to be known beforehand`},
		"zone":            {func(o *options) { o.MetricsAddress = "[fe80::1%eth0]:1" }, `an address with a zone means one node only`},
		"no distribution": {func(o *options) { o.Distro = distro.Distro{} }, "no distribution"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := options{Staging: staging(lookup(t, "generic"))}
			test.change(&o)

			if _, err := kubernetes.DaemonSet(o); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v, want one line with %q", err, test.want)
			}
		})
	}
}

// TestNoManifest: where a manifest would be of no use, the reason is said, and what to do instead.
func TestNoManifest(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"gke-cos", "microshift"} {
		d := lookup(t, name)

		_, err := kubernetes.DaemonSet(kubernetes.DaemonSetOptions{Staging: staging(d)})
		if !errors.Is(err, kubernetes.ErrNoManifest) || !strings.Contains(err.Error(), d.NoManifest) {
			t.Errorf("%s: DaemonSet: error is %v", name, err)
		}

		_, err = kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging(d)})
		if !errors.Is(err, kubernetes.ErrNoManifest) {
			t.Errorf("%s: patch: error is %v", name, err)
		}
	}
}

func TestCheckImage(t *testing.T) {
	t.Parallel()

	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"

	tests := map[string]struct {
		reference string
		preloaded bool
		warning   string
	}{
		"digest":             {"registry.example/a" + digest, false, ""},
		"tag and digest":     {"registry.example/a:v1" + digest, false, ""},
		"tag":                {"registry.example/a:v1", false, "names no digest"},
		"neither":            {"registry.example/a", false, "names no digest"},
		"preloaded":          {"registry.example/a:v1", true, ""},
		"preloaded, digest":  {"registry.example/a:v1" + digest, true, "mostly has its tag only"},
		"registry with port": {"localhost:5000/a:v1" + digest, false, ""},
	}

	for name, test := range tests {
		warning, err := kubernetes.CheckImage(test.reference, test.preloaded)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}

		if (warning == "") != (test.warning == "") || !strings.Contains(warning, test.warning) {
			t.Errorf("%s: warning %q, want %q", name, warning, test.warning)
		}
	}
}

// TestWordsStayStrings: what looks like another type to Kubernetes' YAML reader must not become one.
func TestWordsStayStrings(t *testing.T) {
	t.Parallel()

	for _, word := range []string{"on", "off", "yes", "no", "true", "null", "1", "1.5", "0x10", "1e3", "", "2026-11-29", "y", "n"} {
		set := daemonSet(t, kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "generic")), NodeSelector: map[string]string{"key": word}})

		if got, ok := set.Spec.Template.Spec.NodeSelector["key"]; !ok || got != word {
			t.Errorf("%q was read as %q", word, got)
		}
	}
}

// TestUninstall: the same pods, so that one replaces the other node by node, and nothing is watched that would come back.
func TestUninstall(t *testing.T) {
	t.Parallel()

	o := kubernetes.DaemonSetOptions{Staging: staging(lookup(t, "talos"))}
	install := daemonSet(t, o)

	o.Uninstall = true
	uninstall := daemonSet(t, o)

	if install.Name != uninstall.Name || !reflect.DeepEqual(install.Spec.Selector, uninstall.Spec.Selector) {
		t.Error("they are not the same DaemonSet")
	}

	pod := uninstall.Spec.Template.Spec
	if !slices.Equal(pod.InitContainers[0].Args, []string{"uninstall"}) || !slices.Contains(pod.Containers[0].Args, "--only=none") {
		t.Errorf("arguments are %v and %v", pod.InitContainers[0].Args, pod.Containers[0].Args)
	}

	checkContainer(t, o.Distro, pod.InitContainers[0])
	checkDirectories(t, o.Distro, pod)
}
