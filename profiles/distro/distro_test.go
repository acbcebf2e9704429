package distro_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/profiles/distro"
)

var (
	name  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	month = regexp.MustCompile(`^20[0-9]{2}-(0[1-9]|1[0-2])$`)
)

func TestTable(t *testing.T) {
	t.Parallel()

	if names := distro.Names(); !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names are not sorted or not unique: %v", names)
	}

	for _, d := range distro.All() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()

			if !name.MatchString(d.Name) {
				t.Errorf("name %q", d.Name)
			}

			for _, dir := range []string{d.BinDir, d.ConfDir} {
				if !path.IsAbs(dir) || path.Clean(dir) != dir {
					t.Errorf("%q is not a clean absolute path", dir)
				}
			}

			if !slices.IsSorted(d.PlatformOwned) {
				t.Errorf("platform-owned names are not sorted: %v", d.PlatformOwned)
			}

			if d.Source == "" || !month.MatchString(d.Date) {
				t.Errorf("source %q, date %q: every fact has both", d.Source, d.Date)
			}
		})
	}
}

// TestTableHasOneValue: a decoder stops silently after the first one.
func TestTableHasOneValue(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("distros.json")
	if err != nil {
		t.Fatal(err)
	}

	var all []distro.Distro

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}

	if decoder.More() {
		t.Error("something follows the table")
	}

	if diff := cmp.Diff(all, distro.All()); diff != "" {
		t.Errorf("table (-file +package):\n%s", diff)
	}
}

// TestKnownNodes are facts of the project's description, held against slips in the table.
func TestKnownNodes(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		binDir string
		owned  []string
	}{
		"generic":    {"/opt/cni/bin", nil},
		"gke-cos":    {"/home/kubernetes/bin", nil},
		"k3s":        {"/var/lib/rancher/k3s/data/cni", []string{"bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}},
		"microk8s":   {"/var/snap/microk8s/current/opt/cni/bin", nil},
		"microshift": {"/run/cni/bin", nil},
		"talos":      {"/opt/cni/bin", []string{"bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d, err := distro.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}

			if d.BinDir != test.binDir {
				t.Errorf("bin directory is %s, want %s", d.BinDir, test.binDir)
			}

			if diff := cmp.Diff(test.owned, d.PlatformOwned); diff != "" {
				t.Errorf("platform-owned (-want +got):\n%s", diff)
			}

			for _, owned := range test.owned {
				if !d.Owns(owned) {
					t.Errorf("does not own %s", owned)
				}
			}

			if d.Owns("macvlan") || d.Owns("") {
				t.Error("owns what it does not ship")
			}
		})
	}
}

func TestUnknownDistribution(t *testing.T) {
	t.Parallel()

	_, err := distro.Lookup("plan9")

	const want = `unknown distribution "plan9": known are flatcar, generic, gke-cos, k0s, k3s, kubespray, microk8s, microshift, rke2, talos`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestAllIsACopy: a caller that sorts or filters must not change the table.
func TestAllIsACopy(t *testing.T) {
	t.Parallel()

	all := distro.All()
	all[0] = distro.Distro{}

	if distro.All()[0].Name == "" {
		t.Error("the table was changed through a returned slice")
	}
}
