package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// primaryDir is where a primary network's configuration lies when Multus is the only writer of the
// runtime's directory.
const primaryDir = "/etc/cni/multus/net.d"

// writerNode has Multus as the only writer, by our kustomization, which also brings the plugins. What
// flannel would write lies where we say that flannel has to write it.
func (a *artifacts) writerNode(t *testing.T) *scene {
	t.Helper()

	n := node.Start(t)

	n.CopyDir(t, dist.NodePlugins(t, "host-local", "loopback", "portmap", "ptp"), node.PluginDir)
	n.Write(t, filepath.Join(primaryDir, "10-flannel.conflist"), []byte(ptpNetwork), 0o644)
	n.StartContainerd(t, node.PluginDir, node.ConfDir)

	s := &scene{Cluster: Start(t, n), artifacts: a, distro: "generic", pluginDir: node.PluginDir, confDir: node.ConfDir, attachments: []attachment{bridge, macvlan}}
	s.importImages(t)
	s.startMultus(t, s.onlyWriter(t))

	return s
}

// onlyWriter is the manifest of Multus with our kustomization.
func (s *scene) onlyWriter(t *testing.T) string {
	t.Helper()

	dir := t.TempDir()
	s.kustomize(t, dir, "--primary=flannel", "--image="+s.current.load(t, s.Cluster))

	return s.Kubectl(t, "kustomize", dir)
}

// attach creates the pods and waits for their attachments.
func (s *scene) attach(t *testing.T) string {
	s.createPods(t)
	seen := s.attached(t)
	s.deletePods(t)

	return seen
}

// gap creates pods while there is no Multus. They do not start until it is there again, and then have
// their attachments; with another configuration in the directory they would start without.
func (s *scene) gap(t *testing.T) string {
	s.Kubectl(t, "--namespace=kube-system", "delete", multusSet, "--cascade=foreground", "--timeout=50s")

	if left := s.listing(t, s.confDir); len(left) != 0 {
		t.Fatalf("without Multus there still is %v", left)
	}

	s.WaitFor(t, "the node to notice", time.Minute, "wait", "--for=condition=Ready=false", "--timeout=1s", "node/"+node.Name)
	s.createPods(t)

	for _, a := range s.attachments {
		node.WaitFor(t, "pod "+a.name+" to be refused", time.Minute, func() error {
			events := s.Kubectl(t, "get", "events", "--field-selector=type=Warning,involvedObject.name="+a.name, "--output=jsonpath={.items[*].reason}")
			if strings.Contains(events, "FailedScheduling") || strings.Contains(events, "NetworkNotReady") {
				return nil
			}

			return fmt.Errorf("its events are %q", events)
		})
	}

	s.startMultus(t, s.onlyWriter(t))

	return s.attached(t)
}
