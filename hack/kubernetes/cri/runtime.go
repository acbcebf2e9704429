package cri

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// logRoot is where the node keeps the logs of pods.
const logRoot = "/var/log/pods"

// Runtime is the container runtime of a node.
type Runtime struct {
	node   *node.Node
	client api.RuntimeServiceClient
}

// Pod is a sandbox that came up.
type Pod struct {
	ID     string
	config *api.PodSandboxConfig
}

// Connect connects to the runtime of a node.
func Connect(t testing.TB, n *node.Node) *Runtime {
	t.Helper()

	connection, err := grpc.NewClient("unix://"+n.Path(node.Socket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { connection.Close() })

	return &Runtime{node: n, client: api.NewRuntimeServiceClient(connection)}
}

// limited is for one call: a sandbox may take a while on a busy machine.
func limited(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 2*time.Minute)
}

// RunPod starts a sandbox, in a network of its own or in the node's.
func (r *Runtime) RunPod(t testing.TB, name string, network api.NamespaceMode) (*Pod, error) {
	t.Helper()

	ctx, cancel := limited(t)
	defer cancel()

	config := &api.PodSandboxConfig{
		Metadata:     &api.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		LogDirectory: path.Join(logRoot, name),
		Linux: &api.LinuxPodSandboxConfig{
			CgroupParent: r.node.Cgroup,
			SecurityContext: &api.LinuxSandboxSecurityContext{
				NamespaceOptions: &api.NamespaceOption{Network: network, Pid: api.NamespaceMode_CONTAINER},
			},
		},
	}

	response, err := r.client.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Config: config})
	if err != nil {
		return nil, err
	}

	return &Pod{ID: response.PodSandboxId, config: config}, nil
}

// Address is the pod's.
func (r *Runtime) Address(t testing.TB, pod *Pod) string {
	t.Helper()

	ctx, cancel := limited(t)
	defer cancel()

	response, err := r.client.PodSandboxStatus(ctx, &api.PodSandboxStatusRequest{PodSandboxId: pod.ID})
	if err != nil {
		t.Fatal(err)
	}

	return response.GetStatus().GetNetwork().GetIp()
}

// RemovePod stops and removes a sandbox with all that runs in it.
func (r *Runtime) RemovePod(t testing.TB, pod *Pod) {
	t.Helper()

	ctx, cancel := limited(t)
	defer cancel()

	if _, err := r.client.StopPodSandbox(ctx, &api.StopPodSandboxRequest{PodSandboxId: pod.ID}); err != nil {
		t.Fatal(err)
	}

	if _, err := r.client.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{PodSandboxId: pod.ID}); err != nil {
		t.Fatal(err)
	}
}

// Start starts a container in a pod and returns its ID.
func (r *Runtime) Start(t testing.TB, pod *Pod, config *api.ContainerConfig) string {
	t.Helper()

	ctx, cancel := limited(t)
	defer cancel()

	config.LogPath = config.GetMetadata().GetName() + ".log"

	created, err := r.client.CreateContainer(ctx, &api.CreateContainerRequest{PodSandboxId: pod.ID, Config: config, SandboxConfig: pod.config})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := r.client.StartContainer(ctx, &api.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		t.Fatal(err)
	}

	return created.ContainerId
}

// Wait waits until a container has ended and returns its exit code and what it printed.
func (r *Runtime) Wait(t testing.TB, pod *Pod, id string) (int, string) {
	t.Helper()

	var status *api.ContainerStatus

	node.WaitFor(t, "the container to end", 2*time.Minute, func() error {
		response, err := r.client.ContainerStatus(t.Context(), &api.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			t.Fatal(err)
		}

		if status = response.GetStatus(); status.GetState() != api.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("it is %v", status.GetState())
		}

		return nil
	})

	return int(status.GetExitCode()), r.Log(t, pod, status.GetMetadata().GetName())
}

// Log is what a container has printed so far.
func (r *Runtime) Log(t testing.TB, pod *Pod, container string) string {
	t.Helper()

	content, err := os.ReadFile(r.node.Path(path.Join(pod.config.GetLogDirectory(), container+".log")))
	if err != nil {
		t.Fatal(err)
	}

	var text strings.Builder

	// Time, stream and whether the line is complete come first.
	for line := range strings.Lines(string(content)) {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			text.WriteString(fields[3])
		}
	}

	return text.String()
}
