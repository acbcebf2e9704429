package main

import (
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// systemd itself finds nothing to say about the unit, in a root that holds the tarball and systemd's own units.
func TestUnitIsSound(t *testing.T) {
	t.Parallel()
	buildertest.RequireTool(t, "systemd-analyze")

	root := t.TempDir()
	output(t, "sh", "-ec", `
mkdir -p "$1/usr/lib/systemd"
cp -r /usr/lib/systemd/system "$1/usr/lib/systemd/"
tar -xzf "$2" -C "$1"
said=$(systemd-analyze verify --root="$1" --man=no cni-plugins.service 2>&1)
test -z "$said" || { echo "$said"; exit 1; }
`, "sh", root, filepath.Join(distDir(t), "generic-linux-amd64.tar.gz"))
}
