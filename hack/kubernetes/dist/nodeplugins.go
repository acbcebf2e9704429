package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// upstream is where the plugins lie that a node has without us, in the version that go.mod names.
const upstream = "github.com/containernetworking/plugins/plugins/"

var upstreamPackages = map[string]string{
	"host-local": upstream + "ipam/host-local",
	"loopback":   upstream + "main/loopback",
	"portmap":    upstream + "meta/portmap",
	"ptp":        upstream + "main/ptp",
}

// NodePlugins compiles plugins as a node's image has them, separately and in an older version than
// ours, and returns their directory.
func NodePlugins(t testing.TB, names ...string) string {
	t.Helper()

	dir := t.TempDir()
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}

	for _, name := range names {
		args = append(args, upstreamPackages[name])
	}

	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".." // of a package with tests: the module that requires them
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling plugins: %v\n%s", err, out)
	}

	return dir
}
