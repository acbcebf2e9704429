package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// Where k3s has its plugins and its configuration. The former are names for one program, in a sibling
// directory that is called by the hash of everything in it.
const (
	k3sDir       = "/var/lib/rancher/k3s"
	k3sPluginDir = k3sDir + "/data/cni"
	k3sConfDir   = k3sDir + "/agent/etc/cni/net.d"
	k3sProgram   = k3sDir + "/data/8e7b0f1e6b9d5b2fcd5b2b5a43c1d4f3e0a1b9b6f3a0c7d2e4f5a6b7c8d9e0f1/bin/cni"
)

// k3sOwn are the names that k3s ships.
var k3sOwn = []string{"bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}

const bridgeNetwork = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}`

// k3sNode is laid out as by k3s: what it ships is an older release, merged into one program. Multus is
// patched from the start, since upstream's manifest has other directories.
func (a *artifacts) k3sNode(t *testing.T) *scene {
	t.Helper()

	n := node.Start(t)
	out := dist.Build(t, a.cnibake, "--pin", a.olderPin, "--with", "loopback", "talos")

	program, err := os.ReadFile(filepath.Join(dist.Unpack(t, out, "talos", "rootfs/opt/cni/bin"), "loopback"))
	if err != nil {
		t.Fatal(err)
	}

	n.Write(t, k3sProgram, program, 0o755)
	n.Write(t, filepath.Join(k3sConfDir, "10-pods.conflist"), []byte(bridgeNetwork), 0o644)

	if err := os.MkdirAll(n.Path(k3sPluginDir), 0o755); err != nil {
		t.Fatal(err)
	}

	links := map[string]string{"cni": k3sProgram}
	for _, name := range k3sOwn {
		links[name] = "cni"
	}

	for name, target := range links {
		if err := os.Symlink(target, n.Path(filepath.Join(k3sPluginDir, name))); err != nil {
			t.Fatal(err)
		}
	}

	n.StartContainerd(t, k3sPluginDir, k3sConfDir)

	s := &scene{Cluster: Start(t, n), artifacts: a, distro: "k3s", pluginDir: k3sPluginDir, confDir: k3sConfDir, attachments: []attachment{macvlan}}

	dir := t.TempDir()
	s.kustomize(t, dir)
	s.importImages(t)
	s.startMultus(t, s.Kubectl(t, "kustomize", dir))

	return s
}

// stageBeside rolls our DaemonSet out. The names of k3s are the same links to the same program after it,
// and Multus runs ours from within its container.
func (s *scene) stageBeside(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		links, program := s.links(t), s.Run(t, "sha256sum", k3sProgram)

		s.rollOut(t, s.manifest(t, "daemonset", "--image="+image))

		if now := s.links(t); !maps.Equal(links, now) {
			t.Errorf("the links of k3s were %v and are %v", links, now)
		}

		if now := s.Run(t, "sha256sum", k3sProgram); now != program {
			t.Errorf("the program of k3s was %s and is %s", program, now)
		}

		var beside int

		found := s.listing(t, s.pluginDir)
		for name, digest := range s.current.plugins {
			if _, own := links[name]; own {
				continue
			}

			beside++

			if !strings.HasSuffix(found[name], strings.TrimPrefix(digest, "sha256:")) {
				t.Errorf("%s is %q, want %s", name, found[name], digest)
			}
		}

		seen := s.attached(t)
		s.deletePods(t)

		return fmt.Sprintf("%d links of k3s as before, %d plugins beside them; %s", len(links), beside, seen)
	}
}

// links is where each of the names of k3s leads.
func (s *scene) links(t *testing.T) map[string]string {
	t.Helper()

	links := make(map[string]string)

	for _, name := range k3sOwn {
		target, err := os.Readlink(s.Path(filepath.Join(k3sPluginDir, name)))
		if err != nil {
			t.Fatal(err)
		}

		links[name] = target
	}

	return links
}
