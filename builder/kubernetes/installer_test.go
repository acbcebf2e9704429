package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cnibake/cnibake/builder/kubernetes"
)

// node is what the containers have of a node, in a directory: the installer, plugins to stage, and a bin directory.
type node struct{ installer, source, dest, state string }

// buildInstaller compiles the installer of this checkout and returns its path.
func buildInstaller(t *testing.T) string {
	t.Helper()

	installer := filepath.Join(t.TempDir(), "install-cni-plugins")

	build := exec.Command("go", "build", "-o", installer, "../../cmd/install-cni-plugins")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")

	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the installer: %v\n%s", err, out)
	}

	return installer
}

func newNode(t *testing.T, installer string) node {
	t.Helper()

	dir := t.TempDir()
	n := node{installer, filepath.Join(dir, "source"), filepath.Join(dir, "dest"), filepath.Join(dir, "state")}

	for _, dir := range []string{n.source, n.dest, n.state} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	// Any static program will do for a plugin.
	for _, name := range []string{"bridge", "macvlan", "ptp", "vlan"} {
		if err := os.Link(n.installer, filepath.Join(n.source, name)); err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range []string{"bridge", "ptp"} {
		if err := os.WriteFile(filepath.Join(n.dest, name), []byte("somebody's"), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	return n
}

// command is a container's, with the node's directories in the place of its mounts.
func (n node) command(ctx context.Context, c corev1.Container, extra ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.installer, c.Args...)
	cmd.Env = append([]string{"CNI_INSTALL_SOURCE=" + n.source, "CNI_INSTALL_STATE_DIR=" + n.state}, extra...)

	for name, value := range env(c) {
		if name == "CNI_INSTALL_DEST" {
			value = n.dest
		}

		cmd.Env = append(cmd.Env, name+"="+value)
	}

	return cmd
}

// TestInstaller holds the manifests to what the installer understands.
func TestInstaller(t *testing.T) {
	t.Parallel()

	installer := buildInstaller(t)

	t.Run("options", func(t *testing.T) {
		t.Parallel()
		testOptions(t, newNode(t, installer))
	})

	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		testWatch(t, newNode(t, installer), false)
	})

	t.Run("watch after uninstalling", func(t *testing.T) {
		t.Parallel()
		testWatch(t, newNode(t, installer), true)
	})
}

// testOptions: the installer does not notice a variable that it does not know, so that a misspelt one
// would be silently without effect.
func testOptions(t *testing.T, n node) {
	t.Helper()

	k3s := staging(lookup(t, "k3s"))

	skip, update, takeOver := k3s, k3s, k3s
	skip.Skip, update.Update, takeOver.TakeOver = []string{"macvlan"}, "missing", true

	tests := map[string]struct {
		staging kubernetes.Staging
		want    map[string]string
	}{
		"generic":   {staging(lookup(t, "generic")), map[string]string{"bridge": "replaced", "macvlan": "installed", "ptp": "replaced", "vlan": "installed"}},
		"k3s":       {k3s, map[string]string{"bridge": "left", "macvlan": "installed", "ptp": "replaced", "vlan": "installed"}},
		"skip":      {skip, map[string]string{"bridge": "left", "macvlan": "skipped", "ptp": "replaced", "vlan": "installed"}},
		"update":    {update, map[string]string{"bridge": "left", "macvlan": "installed", "ptp": "left", "vlan": "installed"}},
		"take over": {takeOver, map[string]string{"bridge": "replaced", "macvlan": "installed", "ptp": "replaced", "vlan": "installed"}},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			set := daemonSet(t, kubernetes.DaemonSetOptions{Staging: test.staging})

			out, err := n.command(t.Context(), set.Spec.Template.Spec.InitContainers[0], "CNI_INSTALL_DRY_RUN=true", "CNI_INSTALL_OUTPUT=json").Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			var report struct {
				Plugins []struct{ Name, Action string }
			}

			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			got := map[string]string{}
			for _, p := range report.Plugins {
				got[p.Name] = p.Action
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what would be done (-want +got):\n%s", diff)
			}
		})
	}
}

// testWatch: the probes ask what the watch answers, and after uninstalling it restores nothing.
func testWatch(t *testing.T, n node, uninstall bool) {
	t.Helper()

	set := daemonSet(t, kubernetes.DaemonSetOptions{
		Staging: staging(lookup(t, "generic")), MetricsAddress: freeAddress(t), Uninstall: uninstall,
	})
	watch := set.Spec.Template.Spec.Containers[0]

	var log strings.Builder

	cmd := n.command(t.Context(), watch)
	cmd.Stdout, cmd.Stderr = &log, &log

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	address := net.JoinHostPort(watch.LivenessProbe.HTTPGet.Host, fmt.Sprint(watch.Ports[0].ContainerPort))

	// Once it is ready everything wanted is there, so that the watch has had its say.
	for _, path := range []string{watch.LivenessProbe.HTTPGet.Path, watch.ReadinessProbe.HTTPGet.Path, "/readyz"} {
		waitFor(t, "http://"+address+path)
	}

	_, err := os.Stat(filepath.Join(n.dest, "vlan"))
	if restored := err == nil; restored == uninstall {
		t.Errorf("vlan restored: %v, after uninstalling: %v", restored, uninstall)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	if err := cmd.Wait(); err != nil {
		t.Errorf("the watch ends with %v:\n%s", err, &log)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	return listener.Addr().String()
}

// waitFor asks until the answer is good.
func waitFor(t *testing.T, url string) {
	t.Helper()

	last := ""

	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(url)
		if err != nil {
			last = err.Error()

			continue
		}

		response.Body.Close()

		if response.StatusCode == http.StatusOK {
			return
		}

		last = response.Status
	}

	t.Fatalf("%s: %s", url, last)
}
