package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// A container as a careful pod has it: a memory limit of 16 MiB, a read-only root, no capabilities.
func TestInstallUnderRunc(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "runc", "runc")

	bundle, dest, state := t.TempDir(), t.TempDir(), t.TempDir()
	root := filepath.Join(bundle, "rootfs")

	for _, dir := range []string{"proc", "dev", "host/opt/cni/bin", "var/lib/cni-plugins"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}

	source := testplugins.Payload(t, testplugins.Unstripped)
	must(t, os.CopyFS(filepath.Join(root, "cni-plugins"), os.DirFS(source)))
	must(t, os.Rename(filepath.Join(root, "cni-plugins/.cni-plugins.json"), filepath.Join(root, "manifest.json")))
	testplugins.Copy(t, binary(t), filepath.Join(root, "install-cni-plugins"))

	id := fmt.Sprintf("install-cni-plugins-%d", os.Getpid())

	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"user": map[string]int{"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": true,
			"args": []string{"/install-cni-plugins", "--strict"}, "capabilities": map[string]any{},
		},
		"root": map[string]any{"path": "rootfs", "readonly": true},
		"mounts": []map[string]any{
			// Not for our program: runc itself wants it.
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/host/opt/cni/bin", "type": "bind", "source": dest, "options": []string{"rbind", "rw"}},
			{"destination": "/var/lib/cni-plugins", "type": "bind", "source": state, "options": []string{"rbind", "rw"}},
		},
		"linux": map[string]any{
			"namespaces":  []map[string]string{{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}},
			"cgroupsPath": "/" + id,
			"resources":   map[string]any{"memory": map[string]int{"limit": 16 << 20}},
		},
	})
	must(t, err)
	write(t, filepath.Join(bundle, "config.json"), string(config))

	runtime := t.TempDir()

	for range 2 {
		out, err := exec.Command("runc", "--root", runtime, "run", "--bundle", bundle, id).CombinedOutput()
		if err != nil {
			t.Fatalf("runc: %v: %s", err, out)
		}

		place{source: source, dest: dest}.want(t)
	}
}
