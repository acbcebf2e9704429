package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// bundle is a container as a careful pod has it: a memory limit of 16 MiB, a read-only root, no
// capabilities, and three directories of the node.
func bundle(t *testing.T, p place, namespaces []string, args ...string) (run func() *exec.Cmd) {
	t.Helper()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "runc", "runc")

	dir, runtime := t.TempDir(), t.TempDir()
	root := filepath.Join(dir, "rootfs")

	for _, dir := range []string{"proc", "dev", "host/opt/cni/bin", "var/lib/cni-plugins"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}

	must(t, os.CopyFS(filepath.Join(root, "cni-plugins"), os.DirFS(p.source)))
	must(t, os.Rename(filepath.Join(root, "cni-plugins/.cni-plugins.json"), filepath.Join(root, "manifest.json")))
	testplugins.Copy(t, binary(t), filepath.Join(root, "install-cni-plugins"))

	id := fmt.Sprintf("install-cni-plugins-%d-%s", os.Getpid(), filepath.Base(t.Name()))

	var separate []map[string]string
	for _, kind := range namespaces {
		separate = append(separate, map[string]string{"type": kind})
	}

	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"user": map[string]int{"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": true,
			"args": append([]string{"/install-cni-plugins"}, args...), "capabilities": map[string]any{},
		},
		"root": map[string]any{"path": "rootfs", "readonly": true},
		"mounts": []map[string]any{
			// Not for our program: runc itself wants it.
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/host/opt/cni/bin", "type": "bind", "source": p.dest, "options": []string{"rbind", "rw"}},
			{"destination": "/var/lib/cni-plugins", "type": "bind", "source": p.state, "options": []string{"rbind", "rw"}},
		},
		"linux": map[string]any{
			"namespaces":  separate,
			"cgroupsPath": "/" + id,
			"resources":   map[string]any{"memory": map[string]int{"limit": 16 << 20}},
		},
	})
	must(t, err)
	write(t, filepath.Join(dir, "config.json"), string(config))

	return func() *exec.Cmd {
		return exec.Command("runc", "--root", runtime, "run", "--bundle", dir, id)
	}
}

func TestInstallUnderRunc(t *testing.T) {
	t.Parallel()

	p := place{testplugins.Payload(t, testplugins.Unstripped), t.TempDir(), t.TempDir()}
	run := bundle(t, p, []string{"mount", "pid", "ipc", "uts", "network"}, "--strict")

	for range 2 {
		if out, err := run().CombinedOutput(); err != nil {
			t.Fatalf("runc: %v: %s", err, out)
		}

		p.want(t)
	}
}

// On the node's network, as the DaemonSet is: it keeps the plugins there, says when its mount shows a
// directory that the node has thrown away, and a new container sees the new one.
func TestWatchUnderRunc(t *testing.T) {
	t.Parallel()

	p := place{testplugins.Payload(t, testplugins.Unstripped), filepath.Join(t.TempDir(), "bin"), t.TempDir()}
	must(t, os.Mkdir(p.dest, 0o755))

	w := &watching{place: p, TB: t, address: freeAddress(t)}
	run := bundle(t, p, []string{"mount", "pid", "ipc", "uts"}, "watch", "--listen", w.address, "--interval", "1h")

	for range 2 {
		w.start(run())
		w.content()
		p.want(t)

		must(t, os.Remove(filepath.Join(p.dest, "bridge")))
		w.until("bridge is restored", func() bool {
			_, err := os.Stat(filepath.Join(p.dest, "bridge"))

			return err == nil
		})
		w.content()

		w.until("the directory is deleted", func() bool { return os.RemoveAll(p.dest) == nil })
		must(t, os.Mkdir(p.dest, 0o755))
		w.until("the mount is stale", func() bool {
			code, body := w.get("/livez")

			return code == 503 && strings.Contains(body, "was deleted on the node")
		})
		w.end()
	}
}
