package release_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/release"
)

// ours is a Dockerfile's side.
func ours(t *testing.T, text string) release.Pinned {
	t.Helper()

	p, err := release.ReadMarkers("Dockerfile", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	return p
}

const dockerfile = "# talos-cni-plugins-checked-against: v1.13.6\n# kube-ovn-cni-plugins-checked-against: v1.15.10\nARG CNI_PLUGINS_VERSION=v1.9.1\n"

func TestVerdicts(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		pinned  string
		shipped release.Shipped
		want    release.Verdict
		says    []string
	}{
		"same release": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.13.6"}, release.InStep,
			[]string{"Talos v1.13.6 carries v1.9.1, as the pin does", "siderolabs/pkgs v1.13.0-43-gd8c80cc, whose Pkgfile has cni_version: v1.9.1", "Dockerfile line 3"},
		},
		"newer release, same version": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.13.9"}, release.MoveMarker,
			[]string{"still carries v1.9.1, but the pin was last compared with v1.13.6", "in line 1 of Dockerfile to v1.13.9, or let --fix do it"},
		},
		"older release, same version": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.13.0-beta.1"}, release.MoveMarker, nil,
		},
		"theirs is older": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.12.0"}, release.Conflict,
			[]string{
				"the pin is newer", "both carry bridge, firewall, host-local, portmap", "talos: our bridge", "lie on top of Talos's (v1.9.0)",
				"talos-readonly: our bridge", "are found first", "fallback: with --distro talos install-cni-plugins leaves", "--take-over",
				"a release of Talos that carries v1.9.1: v1.13.0 to", "hack/pin v1.9.0", "--without bridge,firewall,host-local,portmap",
			},
		},
		"theirs is newer": {
			"# talos-cni-plugins-checked-against: v1.11.0\nCNI_PLUGINS_VERSION: v1.7.1\n", release.Shipped{Writer: "talos", Release: "v1.13.9"}, release.Conflict,
			[]string{"Talos is newer", "cnibake build --pin v1.9.1", "the pin carries portmap v1.7.1, which has GHSA-jv3w-x3r3-g6rm"},
		},
		"one patch release apart": {
			dockerfile, release.Shipped{Writer: "kube-ovn", Release: "v1.15.8"}, release.Conflict,
			[]string{"kube-ovn copies its macvlan, portmap (v1.9.0) over ours (v1.9.1) at every start", "both carry macvlan, portmap"},
		},
		"vulnerable on the other side": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.11.5"}, release.Conflict,
			[]string{"Talos v1.11.5 carries portmap v1.7.1, which has GHSA-jv3w-x3r3-g6rm", "v1.9.0 is free of it"},
		},
		"not in the table": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.99.0"}, release.Unknown,
			[]string{"Talos v1.99.0 is not in the table", "newest", "talos-amd64.spdx.json", "--shipped"},
		},
		"not in the table, an image": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.99.0", Image: "ghcr.io/siderolabs/installer:v1.99.0"}, release.Unknown,
			[]string{"pass --pull to read the image itself"},
		},
		"kube-ovn not in the table": {
			dockerfile, release.Shipped{Writer: "kube-ovn", Release: "v1.99.0"}, release.Unknown,
			[]string{"dist/images/Dockerfile.base of kubeovn/kube-ovn at the tag v1.99.0"},
		},
		"no release at all": {
			dockerfile, release.Shipped{Writer: "talos", Image: "x@sha256:1", Why: "the image is named by its digest alone"}, release.Unknown,
			[]string{"the image is named by its digest alone", "--pull"},
		},
		"evidence for a release that is not in the table": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.99.0", Plugins: "v1.9.1"}, release.MoveMarker, nil,
		},
		"evidence against the table": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.13.6", Plugins: "v1.9.0"}, release.Conflict,
			[]string{"the table", "says that Talos v1.13.6 carries v1.9.1, the source says v1.9.0: the source counts"},
		},
		"evidence without a release": {
			dockerfile, release.Shipped{Source: "Pkgfile", Writer: "talos", Plugins: "v1.9.1", Why: "a Pkgfile does not name the Talos release"}, release.InStep,
			[]string{"both carry v1.9.1", "so the marker was not compared"},
		},
		"no marker for the writer": {
			"# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", release.Shipped{Writer: "kube-ovn", Release: "v1.15.10"}, release.Unknown,
			[]string{"Dockerfile has no marker for kube-ovn", "# kube-ovn-cni-plugins-checked-against: v1.15.10"},
		},
		"no marker for the writer, conflict": {
			"# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", release.Shipped{Writer: "kube-ovn", Release: "v1.15.8"}, release.Conflict, nil,
		},
		"a writer nobody knows": {
			dockerfile, release.Shipped{Writer: "cilium", Release: "v1.18.0"}, release.Unknown, []string{"nothing is known of the releases of cilium"},
		},
		"a writer nobody knows, with evidence": {
			dockerfile, release.Shipped{Source: "Dockerfile.cilium", Writer: "cilium", Plugins: "v1.8.0"}, release.Conflict, []string{"no name is known that both carry"},
		},
		"inferred": {
			dockerfile, release.Shipped{Writer: "talos", Release: "v1.14.1"}, release.MoveMarker, []string{"inferred"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c, err := release.Compare(ours(t, test.pinned), test.shipped)
			if err != nil {
				t.Fatal(err)
			}

			text := everything(c)

			if c.Verdict != test.want {
				t.Errorf("verdict is %s, want %s\n%s", c.Verdict, test.want, text)
			}

			for _, says := range test.says {
				if !strings.Contains(text, says) {
					t.Errorf("does not say %q:\n%s", says, text)
				}
			}

			if strings.ContainsAny(text, "{}") {
				t.Errorf("a placeholder was left:\n%s", text)
			}
		})
	}
}

func everything(c release.Comparison) string {
	parts := []string{c.Summary}
	for _, e := range slices.Concat(c.Pin.Evidence, c.Shipped.Evidence) {
		parts = append(parts, e.String())
	}

	for _, consequence := range c.Consequences {
		parts = append(parts, consequence.Shape+": "+consequence.Text)
	}

	return strings.Join(slices.Concat(parts, c.Choices, c.Notes), "\n")
}

func TestWorst(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		all  []release.Verdict
		want release.Verdict
	}{
		{nil, release.InStep},
		{[]release.Verdict{release.InStep, release.MoveMarker}, release.MoveMarker},
		{[]release.Verdict{release.Conflict, release.MoveMarker, release.InStep}, release.Conflict},
		{[]release.Verdict{release.Unknown, release.Conflict}, release.Unknown},
	} {
		if got := release.Worst(test.all...); got != test.want {
			t.Errorf("worst of %v is %s", test.all, got)
		}
	}
}

func TestPlanMoves(t *testing.T) {
	t.Parallel()

	talos := func(tag string) release.Shipped { return release.Shipped{Source: tag, Writer: "talos", Release: tag} }

	for name, test := range map[string]struct {
		shipped []release.Shipped
		moves   map[string]string
		stay    string
	}{
		"one":                        {[]release.Shipped{talos("v1.13.9")}, map[string]string{"talos": "v1.13.9"}, ""},
		"the same twice":             {[]release.Shipped{talos("v1.13.9"), talos("v1.13.9")}, map[string]string{"talos": "v1.13.9"}, ""},
		"in step already":            {[]release.Shipped{talos("v1.13.6")}, map[string]string{}, ""},
		"a fleet between releases":   {[]release.Shipped{talos("v1.13.6"), talos("v1.13.9")}, map[string]string{}, "v1.13.6 and v1.13.9 are shipped: name one release"},
		"one of the fleet differs":   {[]release.Shipped{talos("v1.13.9"), talos("v1.12.0")}, map[string]string{}, "the verdict on v1.12.0 is conflict"},
		"one of the fleet unknown":   {[]release.Shipped{talos("v1.99.0"), talos("v1.13.9")}, map[string]string{}, "the verdict on v1.99.0 is unknown"},
		"inferred":                   {[]release.Shipped{talos("v1.14.1")}, map[string]string{}, "is inferred, not read"},
		"each writer by itself":      {[]release.Shipped{talos("v1.12.0"), {Source: "x", Writer: "kube-ovn", Release: "v1.15.11"}}, map[string]string{"kube-ovn": "v1.15.11"}, "the verdict on v1.12.0 is conflict"},
		"evidence without a release": {[]release.Shipped{{Source: "Pkgfile", Writer: "talos", Plugins: "v1.9.1"}}, map[string]string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var all []release.Comparison

			for _, shipped := range test.shipped {
				c, err := release.Compare(ours(t, dockerfile), shipped)
				if err != nil {
					t.Fatal(err)
				}

				all = append(all, c)
			}

			moves, stay := release.PlanMoves(all)
			if diff := cmp.Diff(test.moves, moves); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			if got := strings.Join(stay, "; "); (got == "") != (test.stay == "") || !strings.Contains(got, test.stay) {
				t.Errorf("stay: %q, want %q", got, test.stay)
			}
		})
	}
}
