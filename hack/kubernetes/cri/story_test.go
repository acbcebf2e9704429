package cri

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

func TestMain(m *testing.M) {
	node.Main()
	os.Exit(m.Run())
}

// network is what a usual primary network is like. Of its plugins the node has none.
const network = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}`

const probeImage = "cnibake.test/probe:1"

// A sandbox fails for want of bridge; our image runs, as the init container of a pod in the node's
// network; the same sandbox then has an address.
func TestSandboxAfterStaging(t *testing.T) {
	n := node.Start(t)
	out := dist.Build(t, dist.Cnibake(t), "init-container")

	// The one plugin that every node image has: containerd calls it for each sandbox.
	n.CopyDir(t, dist.NodePlugins(t, "loopback"), node.PluginDir)
	n.Write(t, filepath.Join(node.ConfDir, "10-pods.conflist"), []byte(network), 0o644)

	n.StartContainerd(t, node.PluginDir, node.ConfDir)

	probe := dist.Program(t, "..", "./probe")
	n.Import(t, dist.Image(t, node.PauseImage, []string{"/probe", "pause"}, dist.File{Path: "probe", From: probe}))
	n.Import(t, dist.Image(t, probeImage, []string{"/probe"}, dist.File{Path: "probe", From: probe}))
	n.Import(t, filepath.Join(out, "init-container-"+runtime.GOARCH+".tar"))

	r := Connect(t, n)

	t.Run("fails without bridge", func(t *testing.T) {
		const want = `failed to find plugin "bridge" in path [/opt/cni/bin]`

		if _, err := r.RunPod(t, "before", api.NamespaceMode_POD); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the sandbox gave %v, want %s", err, want)
		}
	})

	if t.Failed() {
		t.FailNow()
	}

	plugins := dist.Plugins(t, out, "init-container")

	t.Run("stages", func(t *testing.T) {
		pod, err := r.RunPod(t, "staging", api.NamespaceMode_NODE)
		if err != nil {
			t.Fatal(err)
		}
		defer r.RemovePod(t, pod)

		for _, run := range []struct {
			name, outcome string
			count         int
		}{{"first", ": installed", len(plugins)}, {"again", ": unchanged", len(plugins)}} {
			code, report := r.Wait(t, pod, r.Start(t, pod, stagingContainer(run.name)))

			if count := strings.Count(report, run.outcome); code != 0 || count != run.count {
				t.Errorf("exit code %d, %d plugins%s, want 0 and %d:\n%s", code, count, run.outcome, run.count, report)
			}
		}

		for name, digest := range plugins {
			sum := dist.Output(t, "sha256sum", n.Path(filepath.Join(node.PluginDir, name)))
			if !strings.HasPrefix("sha256:"+sum, digest) {
				t.Errorf("%s was staged as %s, want %s", name, sum, digest)
			}
		}
	})

	t.Run("works with bridge", func(t *testing.T) {
		pod, err := r.RunPod(t, "after", api.NamespaceMode_POD)
		if err != nil {
			t.Fatal(err)
		}
		defer r.RemovePod(t, pod)

		address := r.Address(t, pod)
		if !strings.HasPrefix(address, "10.244.0.") {
			t.Errorf("the pod has the address %q, want one of 10.244.0.0/24", address)
		}

		r.Start(t, pod, &api.ContainerConfig{Metadata: &api.ContainerMetadata{Name: "probe"}, Image: &api.ImageSpec{Image: probeImage}})

		node.WaitFor(t, "the pod to answer", time.Minute, func() error {
			_, err := n.Try(t.Context(), "", probe, "ask", address)

			return err
		})

		if text, want := n.Run(t, probe, "ask", address), "interface eth0 ["+address+"/24"; !strings.Contains(text, want) {
			t.Errorf("the pod says %q, want %q in it", text, want)
		}
	})
}

// stagingContainer is as careful as a manifest of ours.
func stagingContainer(name string) *api.ContainerConfig {
	return &api.ContainerConfig{
		Metadata: &api.ContainerMetadata{Name: name},
		Image:    &api.ImageSpec{Image: "ghcr.io/cnibake/install-cni-plugins:v1.9.1-1"},
		Mounts:   []*api.Mount{{HostPath: node.PluginDir, ContainerPath: "/host/opt/cni/bin"}},
		Linux: &api.LinuxContainerConfig{
			Resources: &api.LinuxContainerResources{MemoryLimitInBytes: 32 << 20},
			SecurityContext: &api.LinuxContainerSecurityContext{
				ReadonlyRootfs: true, NoNewPrivs: true,
				Capabilities:     &api.Capability{DropCapabilities: []string{"ALL"}},
				NamespaceOptions: &api.NamespaceOption{Network: api.NamespaceMode_NODE, Pid: api.NamespaceMode_CONTAINER},
				Seccomp:          &api.SecurityProfile{ProfileType: api.SecurityProfile_RuntimeDefault},
			},
		},
	}
}
