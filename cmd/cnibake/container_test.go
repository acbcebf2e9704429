package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// startContainerd starts Debian's containerd for one test and returns ctr, ready to take arguments.
func startContainerd(t *testing.T) func(args ...string) string {
	t.Helper()
	buildertest.RequireRoot(t)

	for _, tool := range []string{"containerd", "ctr", "runc"} {
		buildertest.RequireTool(t, tool)
	}

	// Not t.TempDir: the path of a unix socket may have 107 bytes only.
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	socket := filepath.Join(dir, "sock")
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %[2]q
[ttrpc]
  address = "%[2]s.ttrpc"
`, dir, socket)

	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer

	daemon := exec.Command("containerd", "--config", filepath.Join(dir, "config.toml"))
	daemon.Stdout, daemon.Stderr = &log, &log

	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()

		if t.Failed() {
			t.Logf("containerd:\n%s", log.String())
		}
	})

	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if exec.Command("ctr", "-a", socket, "version").Run() == nil {
			break
		}

		if time.Now().After(deadline) {
			t.Fatal("containerd did not start within a minute")
		}
	}

	return func(args ...string) string {
		t.Helper()

		return output(t, "ctr", append([]string{"-a", socket}, args...)...)
	}
}

// The image runs as a pod's init container would: imported from its OCI archive (nothing is pulled),
// read-only root, no capabilities, a memory limit.
func TestImageStagesUnderContainerd(t *testing.T) {
	t.Parallel()

	ctr := startContainerd(t)
	dest := t.TempDir()

	ctr("images", "import", filepath.Join(distDir(t), "init-container-amd64.tar"))

	if names := ctr("images", "ls", "-q"); names != "ghcr.io/cnibake/install-cni-plugins:v1.9.1-1\n" {
		t.Fatalf("the image was imported as %q", names)
	}

	args := []string{"run", "--rm", "--read-only", "--memory-limit", "33554432"}
	for _, capability := range strings.Fields("AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_CHROOT") {
		args = append(args, "--cap-drop", "CAP_"+capability)
	}

	args = append(args, "--mount", "type=bind,src="+dest+",dst=/host/opt/cni/bin,options=rbind:rw",
		"ghcr.io/cnibake/install-cni-plugins:v1.9.1-1", "stage-test")
	report := ctr(args...)

	if count := strings.Count(report, ": installed"); count != len(theSet) {
		t.Errorf("%d plugins were installed, want %d:\n%s", count, len(theSet), report)
	}

	for _, plugin := range inspectJSON(t, "init-container-amd64.tar")[0].Plugins {
		sum := output(t, "sha256sum", filepath.Join(dest, plugin.Name))
		if !strings.HasPrefix("sha256:"+sum, plugin.Digest) {
			t.Errorf("%s was staged as %s instead of %s", plugin.Name, sum, plugin.Digest)
		}
	}

	if again := ctr(args...); strings.Count(again, ": unchanged") != len(theSet) {
		t.Errorf("a second run reports:\n%s", again)
	}
}
