package cluster

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// ptpNetwork is a primary network of plugins that no attachment asks for by name, so that only those
// are missing which an attachment wants.
const ptpNetwork = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}`

const probeImage = "cnibake.test/probe:1"

// attachment is a secondary network, called like its plugin, and what its addresses start with.
type attachment struct{ name, config, network string }

func (a attachment) definition() string {
	return fmt.Sprintf(`apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %s, namespace: default}
spec: {config: '%s'}
`, a.name, a.config)
}

// pod is a pod with the attachment.
func (a attachment) pod(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, annotations: {k8s.v1.cni.cncf.io/networks: %s}}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  dnsPolicy: Default
  containers: [{name: probe, image: "%s"}]
`, name, a.name, probeImage)
}

// plainPod shows that a pod without attachments has its primary network, by the plugins that the
// runtime finds itself. Where Multus runs, it finds them instead.
func (s *scene) plainPod(t *testing.T) string {
	const name = "plain"

	s.Apply(t, attachment{}.pod(name))
	s.WaitFor(t, "pod "+name, 2*time.Minute, "wait", "--for=condition=Ready", "--timeout=1s", "pod/"+name)

	address := s.Kubectl(t, "get", "pod", name, "--output=jsonpath={.status.podIP}")
	if !strings.HasPrefix(address, "10.244.0.") {
		t.Errorf("the pod has the address %q", address)
	}

	s.Kubectl(t, "delete", "pod", name, "--timeout=50s")

	return "address `" + address + "`"
}

// createPods creates a pod for each attachment, called like it.
func (s *scene) createPods(t *testing.T) {
	t.Helper()

	for _, a := range s.attachments {
		s.Apply(t, a.pod(a.name))
	}
}

// deletePods removes them and waits until they are gone.
func (s *scene) deletePods(t *testing.T) {
	t.Helper()

	for _, a := range s.attachments {
		s.Kubectl(t, "delete", "pod", a.name, "--timeout=50s")
	}
}

// fail creates the pods and waits until each has failed for want of a plugin.
func (s *scene) fail(t *testing.T) string {
	s.createPods(t)

	var seen []string

	for _, a := range s.attachments {
		want := fmt.Sprintf("failed to find plugin %q in path [%s", cmp.Or(s.lacks, a.name), s.pluginDir)
		// Not by its name, which pods before it had, too.
		uid := s.Kubectl(t, "get", "pod", a.name, "--output=jsonpath={.metadata.uid}")

		node.WaitFor(t, "the failure of pod "+a.name, time.Minute, func() error {
			events := s.Kubectl(t, "get", "events", "--field-selector=involvedObject.uid="+uid, "--output=jsonpath={.items[*].message}")

			_, after, found := strings.Cut(events, want)
			if !found {
				return fmt.Errorf("%q is not in %q", want, events)
			}

			rest, _, _ := strings.Cut(after, "]")
			seen = append(seen, fmt.Sprintf("pod %s: `%s%s]`", a.name, want, rest))

			return nil
		})
	}

	return strings.Join(seen, ", ")
}

// attached waits until the pods are ready, with their interfaces.
func (s *scene) attached(t *testing.T) string {
	t.Helper()

	var seen []string

	for _, a := range s.attachments {
		s.WaitFor(t, "pod "+a.name, 2*time.Minute, "wait", "--for=condition=Ready", "--timeout=1s", "pod/"+a.name)

		net1, err := s.net1(t, a, a.name)
		if err != nil {
			t.Error(err)
		}

		seen = append(seen, fmt.Sprintf("pod %s: net1 `%s`", a.name, net1))
	}

	return strings.Join(seen, ", ")
}

// net1 is the address that the attachment has given a running pod, as the pod sees it.
func (s *scene) net1(t *testing.T, a attachment, pod string) (string, error) {
	log, err := s.probeLog(t, pod)
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(log) {
		if addresses, found := strings.CutPrefix(line, "interface net1 ["); found && strings.HasPrefix(addresses, a.network) {
			address, _, _ := strings.Cut(strings.TrimRight(addresses, "]\n"), " ")

			return address, nil
		}
	}

	return "", fmt.Errorf("pod %s has no interface net1 in %s0/24:\n%s", pod, a.network, log)
}

// probeLog is all that a running pod has to say, which it says a moment after it has started.
func (s *scene) probeLog(t *testing.T, pod string) (string, error) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		log, err := s.TryKubectl(t, "", "logs", pod)
		if err != nil || strings.HasSuffix(log, "ready\n") {
			return log, err
		}

		if time.Now().After(deadline) {
			return "", fmt.Errorf("pod %s has only said %q", pod, log)
		}
	}
}
