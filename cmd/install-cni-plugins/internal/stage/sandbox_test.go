package stage

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// After an uninstall on an overlay the node's own plugins still give a pod its network: a whiteout
// would be an attachment that fails.
func TestOverlayUninstallLeavesAWorkingSandbox(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "ip", "iproute2")
	testplugins.NeedTool(t, "iptables", "iptables")

	names := []string{"bridge", "host-local", "portmap"}
	i := newImage(t, newNode(t, names...))

	i.source = testplugins.Payload(t, testplugins.Stripped, append(names, "tuning")...)
	i.rebuild(names...)
	i.install(func(o *InstallOptions) { o.Exact = true })
	equal(t, "uninstalled", actions(i.uninstall()), map[string]string{
		"bridge": "restored", "host-local": "restored", "portmap": "restored", "tuning": "removed",
	})

	sandbox(t, i.dest)
}

// sandbox runs what a runtime runs for a pod with a published port, in network namespaces of its own.
func sandbox(t *testing.T, bin string) {
	t.Helper()

	host, pod := fmt.Sprintf("stage-host-%d", os.Getpid()), fmt.Sprintf("stage-pod-%d", os.Getpid())
	for _, namespace := range []string{host, pod} {
		command(t, "ip", "netns", "add", namespace)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", namespace).Run() })
	}

	command(t, "ip", "netns", "exec", host, "ip", "link", "set", "lo", "up")

	call := func(plugin, verb, config string) string {
		t.Helper()

		var stderr bytes.Buffer

		cmd := exec.Command("ip", "netns", "exec", host, filepath.Join(bin, plugin))
		cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID=sandbox", "CNI_IFNAME=eth0",
			"CNI_NETNS=/var/run/netns/"+pod, "CNI_PATH="+bin)
		cmd.Stdin, cmd.Stderr = strings.NewReader(config), &stderr

		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s%s", plugin, verb, err, out, stderr.String())
		}

		return string(out)
	}

	const head = `"cniVersion": "1.0.0", "name": "sandbox"`

	bridge := fmt.Sprintf(`{%s, "type": "bridge", "bridge": "stage0", "isGateway": true,
		"ipam": {"type": "host-local", "subnet": "10.78.0.0/24", "dataDir": %q}}`, head, t.TempDir())
	portmap := `{` + head + `, "type": "portmap", "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}, "prevResult": %s}`

	result := call("bridge", "ADD", bridge)
	if !strings.Contains(result, "10.78.0.2/24") {
		t.Errorf("bridge gave %s", result)
	}

	call("portmap", "ADD", fmt.Sprintf(portmap, result))
	call("portmap", "DEL", fmt.Sprintf(portmap, result))
	call("bridge", "DEL", bridge)
}
