package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// programsVariable is where hack/kubernetes-programs has put the programs.
const programsVariable = "CNIBAKE_KUBERNETES_PROGRAMS"

// kubelet is its configuration. Node and container runtime come from the machine, whatever its disks
// and memory are like at the moment.
const kubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: %s
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://` + node.Socket + `
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
evictionHard: {nodefs.available: "0%%", imagefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.inodesFree: "0%%", memory.available: "10Mi"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
oomScoreAdj: 0
resolvConf: ""
`

// Cluster is a Kubernetes of one node.
type Cluster struct {
	*node.Node

	programs string
}

// Programs returns a path below the directory of hack/kubernetes-programs.
func Programs(t testing.TB, path string) string {
	t.Helper()

	dir := os.Getenv(programsVariable)
	if dir == "" {
		node.Unavailable(t, programsVariable+", which hack/e2e-kubernetes sets")
	}

	return filepath.Join(dir, path)
}

// Start starts Kubernetes on a node whose container runtime is running. The node may not be ready yet.
func Start(t testing.TB, n *node.Node) *Cluster {
	t.Helper()

	c := &Cluster{Node: n, programs: Programs(t, "")}

	t.Cleanup(func() {
		if t.Failed() {
			c.logState(t)
		}
	})

	files, err := credentials()
	if err != nil {
		t.Fatal(err)
	}

	files[kubeletFile] = fmt.Appendf(nil, kubelet, n.Cgroup)

	for path, content := range files {
		n.Write(t, path, content, 0o600)
	}

	c.daemon(t, "etcd", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn")
	c.daemon(t, "kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379", "--secure-port=443", "--advertise-address="+node.Address, "--service-cluster-ip-range=10.96.0.0/24",
		"--tls-cert-file="+certFile, "--tls-private-key-file="+keyFile, "--token-auth-file="+tokenFile, "--authorization-mode=RBAC", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+accountKeyFile, "--service-account-signing-key-file="+accountKeyFile,
		"--kubelet-preferred-address-types=InternalIP", "--cert-dir=/var/run/kubernetes")

	c.WaitFor(t, "the API server", 2*time.Minute, "get", "--raw=/readyz")

	c.daemon(t, "kube-controller-manager",
		"--kubeconfig="+kubeconfigFile, "--leader-elect=false", "--service-account-private-key-file="+accountKeyFile, "--root-ca-file="+caFile,
		"--cert-dir=/var/run/kubernetes", "--use-service-account-credentials")
	c.daemon(t, "kube-scheduler", "--kubeconfig="+kubeconfigFile, "--leader-elect=false", "--cert-dir=/var/run/kubernetes")
	c.daemon(t, "kubelet", "--config="+kubeletFile, "--kubeconfig="+kubeconfigFile, "--hostname-override="+node.Name, "--node-ip="+node.Address)

	c.WaitFor(t, "the node", 2*time.Minute, "get", "node", node.Name)
	c.WaitFor(t, "the default service account", time.Minute, "get", "serviceaccount", "default")

	return c
}

// WaitForNode waits until the node is ready, which takes a network configuration.
func (c *Cluster) WaitForNode(t testing.TB) {
	t.Helper()
	c.WaitFor(t, "the node to be ready", 2*time.Minute, "wait", "--for=condition=Ready", "--timeout=1s", "node/"+node.Name)
}

func (c *Cluster) daemon(t testing.TB, name string, args ...string) *node.Daemon {
	t.Helper()

	return c.Daemon(t, name, filepath.Join(c.programs, name), args...)
}

// logState shows what the cluster says about its pods.
func (c *Cluster) logState(t testing.TB) {
	for _, args := range [][]string{{"get", "pods", "--all-namespaces", "--output=wide"}, {"get", "events", "--all-namespaces", "--field-selector=type=Warning"}} {
		name, args := c.kubectl(args)

		// The test's context is done by now.
		out, err := c.Try(context.Background(), "", name, args...)
		t.Log(out, err)
	}
}
