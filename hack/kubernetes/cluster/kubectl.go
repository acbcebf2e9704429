package cluster

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// kubectl is where the node finds the program and its configuration.
func (c *Cluster) kubectl(args []string) (string, []string) {
	return filepath.Join(c.programs, "kubectl"), append([]string{"--kubeconfig=" + kubeconfigFile}, args...)
}

// TryKubectl runs kubectl and returns its standard output.
func (c *Cluster) TryKubectl(t testing.TB, stdin string, args ...string) (string, error) {
	name, args := c.kubectl(args)

	return c.Try(t.Context(), stdin, name, args...)
}

// Kubectl is TryKubectl for what has to succeed.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()

	return c.kubectlWith(t, "", args...)
}

// Apply applies manifests; further arguments are flags of kubectl apply.
func (c *Cluster) Apply(t testing.TB, manifests string, flags ...string) string {
	t.Helper()

	return c.kubectlWith(t, manifests, append([]string{"apply", "--filename=-"}, flags...)...)
}

func (c *Cluster) kubectlWith(t testing.TB, stdin string, args ...string) string {
	t.Helper()

	out, err := c.TryKubectl(t, stdin, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return out
}

// Get decodes what kubectl get prints as JSON.
func (c *Cluster) Get(t testing.TB, into any, args ...string) {
	t.Helper()

	if err := json.Unmarshal([]byte(c.Kubectl(t, append([]string{"get", "--output=json"}, args...)...)), into); err != nil {
		t.Fatal(err)
	}
}

// WaitFor runs kubectl until it succeeds.
func (c *Cluster) WaitFor(t testing.TB, what string, limit time.Duration, args ...string) {
	t.Helper()

	node.WaitFor(t, what, limit, func() error {
		_, err := c.TryKubectl(t, "", args...)

		return err
	})
}
