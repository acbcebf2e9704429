package cluster

import (
	"fmt"
	"os"
	"testing"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

func TestMain(m *testing.M) {
	node.Main()

	code := m.Run()

	if code == 0 && *results != "" {
		if err := writeResults(*results); err != nil {
			fmt.Fprintln(os.Stderr, err)

			code = 1
		}
	}

	os.Exit(code)
}

func TestKubernetes(t *testing.T) {
	Programs(t, "")

	a := newArtifacts(t)

	t.Run("usual node", a.usualStory)
	t.Run("read-only directory", a.readonlyStory)

	if !testing.Short() {
		t.Run("k3s", a.k3sStory)
		t.Run("one writer", a.writerStory)
	}
}

// usualStory: attachments fail, the doctor says why, the DaemonSet of an older release mends it, an
// upgrade harms nobody, what goes missing comes back, and everything can be taken back. Then the same
// from within Multus's own DaemonSet, and on a node that cannot be written to.
func (a *artifacts) usualStory(t *testing.T) {
	s := a.usualNode(t)
	before := s.listing(t, s.pluginDir)

	show(t, "attachments fail without their plugins", s.fail)

	older, current := a.older.load(t, s.Cluster), a.current.load(t, s.Cluster)

	show(t, "the doctor names the cause on the node", s.doctorFinds)
	show(t, "the doctor looks at the node from a pod", s.doctorInPod(current))
	show(t, "the API server accepts our DaemonSet", s.dryRun(older))

	if !testing.Short() {
		show(t, "the API server accepts what we write for every distribution", s.dryRunAll(current))
	}

	show(t, "that of "+olderVersion+" brings the plugins, and the waiting pods start", s.stage(older, a.older))
	show(t, "the doctor in our pod is content", s.doctorContent)
	show(t, "an upgrade while pods are created", s.upgrade(older, current))
	show(t, "deleted plugins come back", s.comeBack)
	show(t, "the container that keeps watch, at rest", s.watchAtRest)
	show(t, "uninstalling leaves the directory as found", s.uninstall(current, before))
	show(t, "attachments fail again", s.fail)
	show(t, "the patch of Multus brings the plugins", s.patchMultus(current))
	show(t, "uninstalling leaves the directory as found, again", s.uninstall(current, before))
	show(t, "a directory that cannot be written to", s.writeProtect(current))
}

// readonlyStory: on a node with the extension talos-readonly the plugins lie in its read-only directory
// alone, and containerd 2.x and Multus search that one, too.
func (a *artifacts) readonlyStory(t *testing.T) {
	s := a.readonlyNode(t)

	show(t, "containerd finds them by the extension's part of its configuration", s.plainPod)
	s.startMultus(t, MultusManifest(t))
	show(t, "pods fail while Multus searches "+node.PluginDir+" alone", s.fail)
	show(t, "the patch makes it search "+readonlyDir, s.patchReadonly)
}

// k3sStory: what k3s ships stays as it is, and ours stands beside it.
func (a *artifacts) k3sStory(t *testing.T) {
	s := a.k3sNode(t)
	current := a.current.load(t, s.Cluster)

	show(t, "the attachment fails that k3s has no plugin for", s.fail)
	show(t, "our DaemonSet adds to what k3s ships", s.stageBeside(current))
	show(t, "the doctor in our pod is content", s.doctorContent)
	show(t, "a deleted plugin comes back", s.comeBack)
}

// writerStory: where Multus alone writes the runtime's configuration, no pod misses its attachments.
func (a *artifacts) writerStory(t *testing.T) {
	s := a.writerNode(t)

	show(t, "pods get attachments", s.attach)
	show(t, "pods that are created while Multus is away wait for it", s.gap)
}
