package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// tryRollOut applies our DaemonSet and waits until it has rolled out.
func (s *scene) tryRollOut(t *testing.T, manifest string) error {
	if _, err := s.TryKubectl(t, manifest, "apply", "--filename=-"); err != nil {
		return err
	}

	_, err := s.TryKubectl(t, "", ourNamespace, "rollout", "status", "--timeout=55s", ourSet)

	return err
}

func (s *scene) rollOut(t *testing.T, manifest string) {
	t.Helper()

	if err := s.tryRollOut(t, manifest); err != nil {
		t.Fatalf("%v\n%s", err, s.Kubectl(t, ourNamespace, "describe", "pods"))
	}
}

// stage rolls our DaemonSet out; pods that wait for their attachments get them without being touched.
func (s *scene) stage(image string, p payload) func(t *testing.T) string {
	return func(t *testing.T) string {
		s.rollOut(t, s.manifest(t, "daemonset", "--image="+image))
		p.expectStaged(t, s.Cluster, s.pluginDir)

		seen := s.attached(t)
		s.deletePods(t)

		return seen
	}
}

// comeBack deletes plugins on the node: what runs in our pod puts them back, without a restart.
func (s *scene) comeBack(t *testing.T) string {
	pod := s.ourPod(t)
	start := time.Now()

	for _, a := range s.attachments {
		if err := os.Remove(s.Path(filepath.Join(s.pluginDir, a.name))); err != nil {
			t.Fatal(err)
		}
	}

	node.WaitFor(t, "the deleted plugins", time.Minute, func() error {
		var missing error

		for _, a := range s.attachments {
			_, err := os.Stat(s.Path(filepath.Join(s.pluginDir, a.name)))
			missing = errors.Join(missing, err)
		}

		return missing
	})

	took := time.Since(start)

	s.createPods(t)
	seen := s.attached(t)
	s.deletePods(t)

	if now := s.ourPod(t); now.Metadata.Name != pod.Metadata.Name || now.restarts() != pod.restarts() {
		t.Errorf("pod %s with %d restarts is now %s with %d", pod.Metadata.Name, pod.restarts(), now.Metadata.Name, now.restarts())
	}

	return fmt.Sprintf("back after %.1f s; %s", took.Seconds(), seen)
}

// uninstall takes back what was staged, as docs/kubernetes.md says, whoever staged it.
func (s *scene) uninstall(image string, before map[string]string) func(t *testing.T) string {
	return func(t *testing.T) string {
		s.rollOut(t, s.manifest(t, "daemonset", "--image="+image, "--uninstall"))

		report := s.Kubectl(t, ourNamespace, "logs", ourSet, "--container=uninstall")
		s.Kubectl(t, "delete", "namespace", namespace, "--timeout=50s")

		after := s.listing(t, s.pluginDir)
		if !maps.Equal(before, after) {
			t.Errorf("before the first install:\n%s\nnow:\n%s\nuninstall said:\n%s", lines(before), lines(after), report)
		}

		return fmt.Sprintf("%d files as before", len(after))
	}
}

func lines(files map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(&text, name, files[name])
	}

	return text.String()
}

// writeProtect makes the node's directory one that cannot be written to: our pod is ready all the same,
// and says where people look for it why the plugins are not there.
func (s *scene) writeProtect(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		s.Protect(t, s.pluginDir)
		s.rollOut(t, s.manifest(t, "daemonset", "--image="+image))

		pod := s.ourPod(t)

		installer := pod.Status.InitContainerStatuses[0].State.Terminated
		if installer.ExitCode != 0 || !strings.Contains(installer.Message, "read-only") {
			t.Errorf("the installer ended with %d and the message %q", installer.ExitCode, installer.Message)
		}

		summary, found := lineWith(installer.Message, "failed to install: ")
		if !found {
			t.Errorf("the message is %q", installer.Message)
		}

		description := s.Kubectl(t, ourNamespace, "describe", "pod", pod.Metadata.Name)
		if !strings.Contains(description, summary) {
			t.Errorf("kubectl describe does not show %q:\n%s", summary, description)
		}

		return fmt.Sprintf("pod ready; in its termination message and in kubectl describe `%s`", summary)
	}
}
