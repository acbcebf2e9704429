package cluster

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// scene is a cluster with Multus on a kind of node, and the attachments that pods ask for there.
type scene struct {
	*Cluster
	*artifacts

	distro             string
	pluginDir, confDir string
	attachments        []attachment
	// lacks is the plugin that the attachments' pods fail for, where it is not the attachment's own.
	lacks string
}

var (
	bridge = attachment{
		"bridge", `{"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-second", "ipam": {"type": "host-local", "subnet": "10.77.0.0/24"}}`, "10.77.0.",
	}
	macvlan = attachment{
		"macvlan", `{"cniVersion": "1.0.0", "type": "macvlan", "master": "` + node.Uplink + `", "mode": "bridge", "ipam": {"type": "host-local", "subnet": "10.78.0.0/24"}}`, "10.78.0.",
	}
)

// usualNode has the plugins of its primary network and no others.
func (a *artifacts) usualNode(t *testing.T) *scene {
	t.Helper()

	n := node.Start(t)

	n.CopyDir(t, dist.NodePlugins(t, "host-local", "loopback", "portmap", "ptp"), node.PluginDir)
	n.Write(t, filepath.Join(node.ConfDir, "10-pods.conflist"), []byte(ptpNetwork), 0o644)
	n.StartContainerd(t, node.PluginDir, node.ConfDir)

	s := &scene{Cluster: Start(t, n), artifacts: a, distro: "generic", pluginDir: node.PluginDir, confDir: node.ConfDir, attachments: []attachment{bridge, macvlan}}
	s.importImages(t)
	s.startMultus(t, MultusManifest(t))

	return s
}

// readonlyNode is as the extension leaves it, with containerd 2.x and without Multus. It has no other
// plugin than the one that every node image has.
func (a *artifacts) readonlyNode(t *testing.T) *scene {
	t.Helper()

	n := node.Start(t)

	// What the extension adds to the root file system.
	tree := dist.Unpack(t, dist.Build(t, a.cnibake, "talos-readonly"), "talos-readonly", "rootfs")
	for _, dir := range []string{"etc", "usr"} {
		n.CopyDir(t, filepath.Join(tree, dir), "/"+dir)
	}

	n.Protect(t, readonlyDir)
	n.CopyDir(t, dist.NodePlugins(t, "loopback"), node.PluginDir)
	n.Write(t, filepath.Join(node.ConfDir, "10-pods.conflist"), []byte(ptpNetwork), 0o644)
	n.StartContainerd2(t, Programs(t, "containerd"))

	s := &scene{Cluster: Start(t, n), artifacts: a, distro: "talos", pluginDir: node.PluginDir, confDir: node.ConfDir, attachments: []attachment{bridge, macvlan}, lacks: "ptp"}
	s.importImages(t)

	return s
}

// importImages puts the images of all pods but ours onto the node.
func (s *scene) importImages(t *testing.T) {
	t.Helper()
	s.ImportMultus(t)

	probe := dist.Program(t, "..", "./probe")
	s.Import(t, dist.Image(t, node.PauseImage, []string{"/probe", "pause"}, dist.File{Path: "probe", From: probe}))
	s.Import(t, dist.Image(t, probeImage, []string{"/probe"}, dist.File{Path: "probe", From: probe}))
}

// startMultus applies a manifest of Multus and makes the attachments known.
func (s *scene) startMultus(t *testing.T, manifest string) {
	t.Helper()
	s.Apply(t, manifest)
	s.WaitForMultus(t, s.confDir)
	s.WaitForNode(t)
	s.WaitFor(t, "the kind of attachment definitions", time.Minute, "get", "network-attachment-definitions")

	for _, a := range s.attachments {
		s.Apply(t, a.definition())
	}
}

// manifest is what cnibake manifest writes for the scene's nodes.
func (s *scene) manifest(t *testing.T, kind string, args ...string) string {
	t.Helper()

	return dist.Output(t, s.cnibake, append([]string{"manifest", kind, "--distro=" + s.distro}, args...)...)
}

// listing is the mode and digest of each file of a directory of the node.
func (c *Cluster) listing(t *testing.T, dir string) map[string]string {
	t.Helper()

	script := `cd "$1" && for f in $(ls -A); do echo "$f $(stat -c %F,%a "$f" | tr ' ' -) $(sha256sum < "$f")"; done`
	files := make(map[string]string)

	for line := range strings.Lines(c.Run(t, "sh", "-c", script, "sh", dir)) {
		if fields := strings.Fields(line); len(fields) >= 3 {
			files[fields[0]] = fields[1] + " " + fields[2]
		}
	}

	return files
}
