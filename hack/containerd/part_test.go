package containerd

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// talosBase stands for the part that Talos itself ships: it has keys beside ours and below the same tables.
const talosBase = `version = 3

[plugins."io.containerd.cri.v1.images"]
  discard_unpacked_layers = true

[plugins."io.containerd.cri.v1.runtime"]
  enable_unprivileged_ports = true

[plugins."io.containerd.cri.v1.runtime".cni]
  conf_dir = "/etc/cni/net.d"
`

// TestContainerdSearchesBothDirectories merges the part out of the built extension with Talos's own,
// as Talos does at boot, and asks containerd what it understood.
func TestContainerdSearchesBothDirectories(t *testing.T) {
	dir := t.TempDir()
	merged := make(map[string]any)

	// Talos merges the parts in the order of their names: tables key by key, everything else replaced.
	for _, part := range []string{talosBase, partOfExtension(t, dir)} {
		decoded := make(map[string]any)
		if err := toml.Unmarshal([]byte(part), &decoded); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}

		merge(merged, decoded)
	}

	encoded, err := toml.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}

	imported := filepath.Join(dir, "cri.toml")
	main := filepath.Join(dir, "containerd.toml")

	write(t, imported, encoded)
	write(t, main, []byte("version = 3\nimports = ['"+imported+"']\n"))

	containerd := filepath.Join(dir, "containerd")
	run(t, ".", "go", "build", "-tags", "no_btrfs no_zfs no_devmapper no_aufs no_tracing", "-o", containerd, "github.com/containerd/containerd/v2/cmd/containerd")

	var understood struct {
		Plugins map[string]struct {
			CNI struct {
				BinDirs []string `toml:"bin_dirs"`
				ConfDir string   `toml:"conf_dir"`
			} `toml:"cni"`
			EnableUnprivilegedPorts bool `toml:"enable_unprivileged_ports"`
		} `toml:"plugins"`
	}

	dump := run(t, dir, containerd, "--config", main, "config", "dump")
	if err := toml.Unmarshal([]byte(dump), &understood); err != nil {
		t.Fatal(err)
	}

	cri := understood.Plugins["io.containerd.cri.v1.runtime"]

	if want := []string{"/usr/local/lib/cni", "/opt/cni/bin"}; !slices.Equal(cri.CNI.BinDirs, want) {
		t.Errorf("containerd searches %q, want %q", cri.CNI.BinDirs, want)
	}

	// What Talos set beside it is still there.
	if cri.CNI.ConfDir != "/etc/cni/net.d" || !cri.EnableUnprivilegedPorts {
		t.Errorf("the part changed more than bin_dirs: %+v", cri)
	}
}

// partOfExtension builds the extension and takes the part out of its tar.
func partOfExtension(t *testing.T, dir string) string {
	t.Helper()

	out := filepath.Join(dir, "dist")
	run(t, "../..", "go", "run", "-buildvcs=false", "./cmd/cnibake", "build", "-q", "talos-readonly", "--arch", "amd64", "--out", out)

	file, err := os.Open(filepath.Join(out, "talos-readonly-amd64.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal("the extension has no containerd part")
		}

		if err != nil {
			t.Fatal(err)
		}

		if strings.HasPrefix(header.Name, "rootfs/etc/cri/conf.d/") && strings.HasSuffix(header.Name, ".part") {
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}

			return string(data)
		}
	}
}

func merge(into, from map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		table, isTable := from[key].(map[string]any)
		existing, exists := into[key].(map[string]any)

		if isTable && exists {
			merge(existing, table)
		} else {
			into[key] = from[key]
		}
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()

	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()

	var stderr bytes.Buffer

	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}

	return string(out)
}
