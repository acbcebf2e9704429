package cluster

import (
	"encoding/json"
	"testing"
)

// status is what Kubernetes says of a pod.
type status struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		InitContainerStatuses []struct {
			Name  string `json:"name"`
			State struct {
				Terminated struct {
					ExitCode int    `json:"exitCode"`
					Message  string `json:"message"`
				} `json:"terminated"`
			} `json:"state"`
		} `json:"initContainerStatuses"`
		ContainerStatuses []struct {
			Name         string `json:"name"`
			ContainerID  string `json:"containerID"`
			RestartCount int    `json:"restartCount"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

const (
	namespace    = "cni-plugins"
	ourNamespace = "--namespace=" + namespace
	ourSet       = "daemonset/cni-plugins"
)

// ourPod is the pod of our DaemonSet that is not on its way out.
func (c *Cluster) ourPod(t *testing.T) status {
	t.Helper()

	var list struct{ Items []json.RawMessage }

	c.Get(t, &list, ourNamespace, "pods", "--selector=app.kubernetes.io/name=cni-plugins")

	for _, item := range list.Items {
		var deleted struct {
			Metadata struct {
				DeletionTimestamp string `json:"deletionTimestamp"`
			} `json:"metadata"`
		}

		var pod status

		for _, into := range []any{&deleted, &pod} {
			if err := json.Unmarshal(item, into); err != nil {
				t.Fatal(err)
			}
		}

		if deleted.Metadata.DeletionTimestamp == "" {
			return pod
		}
	}

	t.Fatal("our DaemonSet has no pod")

	return status{}
}

func (s status) restarts() int {
	count := 0
	for _, container := range s.Status.ContainerStatuses {
		count += container.RestartCount
	}

	return count
}
