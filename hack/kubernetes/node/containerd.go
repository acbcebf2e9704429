package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Socket is where containerd listens in the node.
const Socket = "/run/containerd/containerd.sock"

// PauseImage is what containerd makes sandboxes of; it has to be imported.
const PauseImage = "cnibake.test/pause:1"

// PluginDir is where a node usually has its plugins, and ConfDir where it has its configuration.
const (
	PluginDir = "/opt/cni/bin"
	ConfDir   = "/etc/cni/net.d"
)

// debianConfig is for containerd 1.6. Bin and configuration directory follow.
const debianConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "` + Socket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`

// config2 is for containerd 2.x. It reads parts as Talos's does, except that Talos merges them itself.
const config2 = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = ["/etc/cri/conf.d/*.part"]
[grpc]
  address = "` + Socket + `"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "` + PauseImage + `"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
`

// StartContainerd starts the machine's containerd, which searches plugins and configuration in these directories.
func (n *Node) StartContainerd(t testing.TB, pluginDir, confDir string) {
	t.Helper()
	RequireTools(t, "containerd", "ctr", "runc")

	n.startContainerd(t, fmt.Sprintf(debianConfig, pluginDir, confDir), "containerd")
}

// StartContainerd2 starts a containerd 2.x, whose programs are in dir.
func (n *Node) StartContainerd2(t testing.TB, dir string) {
	t.Helper()
	RequireTools(t, "ctr", "runc")

	// It looks for its shim in PATH.
	path := dir + string(os.PathListSeparator) + os.Getenv("PATH")
	n.startContainerd(t, config2, "env", "PATH="+path, filepath.Join(dir, "containerd"))
}

func (n *Node) startContainerd(t testing.TB, config, program string, args ...string) {
	t.Helper()

	const path = "/etc/containerd/config.toml"

	n.Write(t, path, []byte(config), 0o644)

	daemon := n.Daemon(t, "containerd", program, append(args, "--config", path)...)

	WaitFor(t, "containerd", time.Minute, func() error {
		if daemon.Ended() {
			t.Fatal("containerd ended")
		}

		_, err := n.Try(t.Context(), "", "ctr", "version")

		return err
	})
}

// Import imports an OCI archive or one of docker save, of which each may have any number of names.
func (n *Node) Import(t testing.TB, archive string) {
	t.Helper()

	n.Run(t, "ctr", "--namespace", "k8s.io", "images", "import", archive)
}
