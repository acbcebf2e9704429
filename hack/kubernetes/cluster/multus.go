package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// multusImage is what Multus's manifest asks for, and multusPrograms where its commands look.
const (
	multusImage    = "ghcr.io/k8snetworkplumbingwg/multus-cni:snapshot-thick"
	multusPrograms = "usr/src/multus-cni/bin"
)

// multusSet is Multus's DaemonSet.
const multusSet = "daemonset/kube-multus-ds"

// ImportMultus puts the image of Multus onto the node: its programs, compiled from its module, beside
// what its manifest wants of Debian.
func (c *Cluster) ImportMultus(t testing.TB) {
	t.Helper()

	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	busybox := Programs(t, "busybox")
	files := []dist.File{
		{Path: "etc/passwd", From: passwd}, {Path: "bin/sh", From: busybox}, {Path: "bin/cp", From: busybox}, {Path: "var/run", Link: "/run"},
	}

	for _, name := range []string{"multus-daemon", "multus-shim", "passthru"} {
		files = append(files, dist.File{Path: filepath.Join(multusPrograms, name), From: Programs(t, filepath.Join("multus", name))})
	}

	c.Import(t, dist.Image(t, multusImage, nil, files...))
}

// MultusManifest is upstream's, unchanged.
func MultusManifest(t testing.TB) string {
	t.Helper()

	manifest, err := os.ReadFile(Programs(t, "multus/multus-daemonset-thick.yml"))
	if err != nil {
		t.Fatal(err)
	}

	return string(manifest)
}

// WaitForMultus waits until Multus has rolled out and the runtime will call it.
func (c *Cluster) WaitForMultus(t testing.TB, confDir string) {
	t.Helper()

	c.WaitFor(t, "Multus", 3*time.Minute, "--namespace=kube-system", "rollout", "status", "--timeout=1s", multusSet)
	node.WaitFor(t, "Multus's configuration", time.Minute, func() error {
		_, err := os.Stat(c.Path(filepath.Join(confDir, "00-multus.conf")))

		return err
	})
}
