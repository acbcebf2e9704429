package distro_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/profiles/distro"
)

var (
	name       = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	capability = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	month      = regexp.MustCompile(`^20[0-9]{2}-(0[1-9]|1[0-2])$`)
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

			for _, dir := range append([]string{d.BinDir, d.ConfDir, d.KubeletDir, d.NetNSDir}, d.FormerBinDirs...) {
				if !path.IsAbs(dir) || path.Clean(dir) != dir {
					t.Errorf("%q is not a clean absolute path", dir)
				}
			}

			if d.LinkDir != "" && !strings.HasPrefix(d.BinDir, d.LinkDir+"/") {
				t.Errorf("%s, into which links lead, is not above %s", d.LinkDir, d.BinDir)
			}

			if d.OverlayUpper != "" && (!path.IsAbs(d.OverlayUpper) || path.Clean(d.OverlayUpper) != d.OverlayUpper) {
				t.Errorf("%q is not a clean absolute path", d.OverlayUpper)
			}

			if slices.Contains(d.FormerBinDirs, d.BinDir) {
				t.Errorf("%s is a former directory and today's", d.BinDir)
			}

			if !slices.IsSorted(d.PlatformOwned) {
				t.Errorf("platform-owned names are not sorted: %v", d.PlatformOwned)
			}

			for _, c := range d.Capabilities {
				if !capability.MatchString(c) {
					t.Errorf("capability %q", c)
				}
			}
		})
	}
}

// TestEveryFactHasASource: each key of a row is vouched for once, with a date, and nothing else is.
func TestEveryFactHasASource(t *testing.T) {
	t.Parallel()

	for _, d := range distro.All() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()

			encoded, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}

			var row map[string]any
			if err := json.Unmarshal(encoded, &row); err != nil {
				t.Fatal(err)
			}

			delete(row, "name")
			delete(row, "sources")

			var sourced []string

			for _, s := range d.Sources {
				if s.Where == "" || !month.MatchString(s.Date) || len(s.Facts) == 0 {
					t.Errorf("source %q, date %q, facts %v: a source has all three", s.Where, s.Date, s.Facts)
				}

				sourced = append(sourced, s.Facts...)
			}

			slices.Sort(sourced)

			if diff := cmp.Diff(slices.Sorted(maps.Keys(row)), sourced); diff != "" {
				t.Errorf("facts (-row +sources):\n%s", diff)
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
		"kubespray":  {"/opt/cni/bin", nil},
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

// TestQuirks are what manifests differ by.
func TestQuirks(t *testing.T) {
	t.Parallel()

	type quirks struct {
		LinkDir, OverlayUpper, NetNSDir string
		Capabilities, FormerBinDirs     []string
		KubeletInContainer, Rendered    bool
	}

	const netns = "/run/netns"

	tests := map[string]quirks{
		"generic":    {NetNSDir: netns, Rendered: true},
		"gke-cos":    {NetNSDir: netns},
		"k3s":        {NetNSDir: netns, Rendered: true, LinkDir: "/var/lib/rancher/k3s/data", FormerBinDirs: []string{"/var/lib/rancher/k3s/data/current/bin"}},
		"kubespray":  {NetNSDir: netns, Rendered: true, Capabilities: []string{"DAC_OVERRIDE"}},
		"microshift": {NetNSDir: netns},
		"talos":      {NetNSDir: "/var/run/netns", Rendered: true, OverlayUpper: "/var/system/overlays/opt-diff", KubeletInContainer: true},
	}

	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d, err := distro.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}

			got := quirks{d.LinkDir, d.OverlayUpper, d.NetNSDir, d.Capabilities, d.FormerBinDirs, d.KubeletInContainer, d.NoManifest == ""}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("quirks (-want +got):\n%s", diff)
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
