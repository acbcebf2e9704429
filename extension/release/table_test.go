package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/release"
	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

func load(t *testing.T, writer string) release.Table {
	t.Helper()

	table, err := release.LoadTable(writer)
	if err != nil {
		t.Fatal(err)
	}

	return table
}

// The places where a table made from tags, or from the nearest release, would be wrong.
func TestTableTraps(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ writer, release, want string }{
		// siderolabs/pkgs' own tag v1.12.0 says v1.8.0; the commit that Talos v1.12.0 builds from does not.
		{release.Talos, "v1.12.0", "v1.9.0"},
		{release.Talos, "v1.12.0-beta.1", "v1.8.0"},
		// Not monotonic.
		{release.Talos, "v1.10.8", "v1.6.2"},
		{release.Talos, "v1.10.9", "v1.9.0"},
		{release.Talos, "v1.11.0", "v1.7.1"},
		{release.Talos, "v1.11.5", "v1.7.1"},
		{release.Talos, "v1.11.6", "v1.9.0"},
		// Patch releases of the plugins differ.
		{release.Talos, "v1.12.11", "v1.9.0"},
		{release.Talos, "v1.13.0", "v1.9.1"},
		// So do pre-releases of one Talos release.
		{release.Talos, "v1.13.0-beta.0", "v1.9.0"},
		{release.Talos, "v1.13.0-beta.1", "v1.9.1"},
		{release.Talos, "v1.13.9", "v1.9.1"},
		{release.KubeOVN, "v1.15.8", "v1.9.0"},
		{release.KubeOVN, "v1.15.9", "v1.9.1"},
		{release.KubeOVN, "v1.15.10", "v1.9.1"},
		// The same number means different things to different writers.
		{release.KubeOVN, "v1.13.9", "v1.6.2"},
		// Neither guesses nor nearest ones.
		{release.Talos, "v1.13.99", ""},
		{release.Talos, "v1.13.9-1", ""},
		{release.Talos, "v1.8.0", ""},
		{release.Talos, "1.13.9", ""},
		{release.KubeOVN, "v1.13.0", ""},
		{"cilium", "v1.18.0", ""},
	} {
		row, ok := load(t, test.writer).Lookup(test.release)
		if row.Plugins != test.want || ok != (test.want != "") {
			t.Errorf("%s %s carries %q (%v), want %q", test.writer, test.release, row.Plugins, ok, test.want)
		}
	}
}

func TestInferredRowsAreMarked(t *testing.T) {
	t.Parallel()

	for tag, want := range map[string]bool{"v1.14.0": true, "v1.14.1": true, "v1.13.9": false, "v1.14.0-rc.1": false} {
		if row, ok := load(t, release.Talos).Lookup(tag); !ok || row.Inferred != want {
			t.Errorf("%s: inferred is %v (%v)", tag, row.Inferred, ok)
		}
	}
}

func TestCarrying(t *testing.T) {
	t.Parallel()

	want := []string{"v1.10.9", "v1.11.6 to v1.12.11"}
	if diff := cmp.Diff(want, load(t, release.Talos).Carrying("v1.9.0")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	if got := load(t, release.Talos).Carrying("v9.9.9"); got != nil {
		t.Errorf("got %v", got)
	}
}

// What writers ship is known in several places, each for its own purpose.
func TestNamesAgree(t *testing.T) {
	t.Parallel()

	talos, err := distro.Lookup("talos")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range release.PluginNames(release.Talos) {
		if !talos.Owns(name) {
			t.Errorf("%s is Talos's here, but not in profiles/distro", name)
		}
	}

	for _, version := range profiles.Pins() {
		pin, err := profiles.LoadPin(version)
		if err != nil {
			t.Fatal(err)
		}

		for _, marker := range pin.Markers {
			shipped := release.Shipped{Source: "test", Writer: marker.Writer, Release: marker.Release}

			c, err := release.Compare(release.FromPin(pin), shipped)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(marker.Overlap, c.Overlap); diff != "" {
				t.Errorf("pin %s, overlap with %s (-pin +here):\n%s", version, marker.Writer, diff)
			}
		}
	}
}

// The default pin is in step with every release that its markers name.
func TestMarkersHold(t *testing.T) {
	t.Parallel()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	pinned := release.FromPin(pin)
	for _, shipped := range release.FromMarkers(pinned) {
		c, err := release.Compare(pinned, shipped)
		if err != nil {
			t.Fatal(err)
		}

		if c.Verdict != release.InStep {
			t.Errorf("%s: %s: %s", shipped.Writer, c.Verdict, c.Summary)
		}
	}
}
