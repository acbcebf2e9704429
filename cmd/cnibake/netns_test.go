package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// The plugins of the extracted tarball give a pod its address and take it back. "Node" and "pod" are
// network namespaces of the test's own.
func TestExtractedPluginsNetworkAPod(t *testing.T) {
	t.Parallel()
	buildertest.RequireRoot(t)
	buildertest.RequireTool(t, "ip")

	dir := t.TempDir()
	output(t, "tar", "-xzf", filepath.Join(distDir(t), "generic-linux-amd64.tar.gz"), "-C", dir)

	node, pod := namespace(t, "node"), namespace(t, "pod")
	bin := filepath.Join(dir, "opt/cni/bin")
	config := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "test", "type": "bridge", "bridge": "cnitest0", "isGateway": true,
		"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/24"}]], "dataDir": %q}%%s}`, filepath.Join(dir, "ipam"))

	call := func(command, extra string) string {
		t.Helper()

		var stdout, stderr bytes.Buffer

		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", node, filepath.Join(bin, "bridge"))
		cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID=test", "CNI_NETNS=/var/run/netns/"+pod,
			"CNI_IFNAME=eth0", "CNI_PATH="+bin)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(config, extra))
		cmd.Stdout, cmd.Stderr = &stdout, &stderr

		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, stdout.String(), stderr.String())
		}

		return stdout.String()
	}

	result := call("ADD", "")
	if !strings.Contains(result, "10.77.0.2/24") {
		t.Errorf("ADD gave %s", result)
	}

	output(t, "ip", "netns", "exec", pod, "ip", "link", "set", "lo", "up")

	if addresses := output(t, "ip", "netns", "exec", pod, "ip", "-4", "addr", "show", "eth0"); !strings.Contains(addresses, "10.77.0.2/24") {
		t.Errorf("the pod has %s", addresses)
	}

	call("CHECK", `, "prevResult": `+result)
	call("DEL", `, "prevResult": `+result)

	if links := output(t, "ip", "netns", "exec", pod, "ip", "-o", "link"); strings.Contains(links, "eth0") {
		t.Errorf("after DEL the pod still has %s", links)
	}
}

// namespace makes a network namespace that goes with the test.
func namespace(t *testing.T, what string) string {
	t.Helper()

	name := fmt.Sprintf("cnibake-%s-%d", what, os.Getpid())
	output(t, "ip", "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })

	return name
}
