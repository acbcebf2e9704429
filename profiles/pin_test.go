package profiles_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

// theSet is the plugin set of the default pin, from the project's description rather than its data.
var theSet = []string{
	"bandwidth", "bridge", "firewall", "host-device", "host-local", "ipvlan", "macvlan",
	"portmap", "ptp", "sbr", "static", "tuning", "vlan", "vrf",
}

func names(plugins []profiles.Plugin) []string {
	var all []string
	for _, plugin := range plugins {
		all = append(all, plugin.Name)
	}

	return all
}

func loadPin(t *testing.T, version string) profiles.Pin {
	t.Helper()

	pin, err := profiles.LoadPin(version)
	if err != nil {
		t.Fatal(err)
	}

	return pin
}

func TestBuiltInPins(t *testing.T) {
	t.Parallel()

	if !slices.Contains(profiles.Pins(), profiles.DefaultPin) {
		t.Errorf("default pin %s is not built in: %v", profiles.DefaultPin, profiles.Pins())
	}

	for _, version := range profiles.Pins() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()

			pin := loadPin(t, version)
			if pin.Version != version {
				t.Errorf("the file named %s pins %s", version, pin.Version)
			}

			if !slices.IsSortedFunc(pin.Plugins, func(a, b profiles.Plugin) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("plugins are not sorted: %v", names(pin.Plugins))
			}

			// Another pin may have been made where the release's files could not be reached.
			for _, arch := range profiles.Architectures() {
				if version == profiles.DefaultPin && pin.Release.SHA256[arch] == "" {
					t.Errorf("no release sum for %s", arch)
				}
			}

			for _, left := range pin.LeftOut {
				if left.Reason == "" {
					t.Errorf("%s is left out without a reason", left.Name)
				}
			}
		})
	}
}

func TestDefaultPin(t *testing.T) {
	t.Parallel()

	pin := loadPin(t, profiles.DefaultPin)

	if diff := cmp.Diff(theSet, names(pin.Plugins)); diff != "" {
		t.Errorf("plugin set (-want +got):\n%s", diff)
	}

	var left []string
	for _, plugin := range pin.LeftOut {
		left = append(left, plugin.Name)
	}

	if diff := cmp.Diff([]string{"dhcp", "dummy", "loopback", "tap"}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}

	want := "https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz"
	if got := pin.Release.URLFor(pin.Version, "arm64"); got != want {
		t.Errorf("release address is %s, want %s", got, want)
	}

	if got := pin.PackagedVersion(); got != "v1.9.1-1" {
		t.Errorf("packaged version is %s", got)
	}
}

// TestTalosMarker ties the marker to what is known of Talos: both come from different files.
func TestTalosMarker(t *testing.T) {
	t.Parallel()

	talos, err := distro.Lookup("talos")
	if err != nil {
		t.Fatal(err)
	}

	for _, version := range profiles.Pins() {
		pin := loadPin(t, version)

		var both []string

		for _, name := range names(pin.Plugins) {
			if talos.Owns(name) {
				both = append(both, name)
			}
		}

		i := slices.IndexFunc(pin.Markers, func(m profiles.Marker) bool { return m.Writer == "talos" })
		if i < 0 {
			t.Fatalf("pin %s has no marker for talos", version)
		}

		if diff := cmp.Diff(both, pin.Markers[i].Overlap); diff != "" {
			t.Errorf("pin %s: overlap with talos (-want +got):\n%s", version, diff)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()

	pin := loadPin(t, profiles.DefaultPin)

	tests := map[string]struct {
		with, without []string
		want          []string
		err           string
	}{
		"as pinned":            {want: theSet},
		"with":                 {with: []string{"tap", "dhcp"}, want: slices.Concat(theSet[:2], []string{"dhcp"}, theSet[2:11], []string{"tap"}, theSet[11:])},
		"with one of the set":  {with: []string{"bridge"}, want: theSet},
		"with, given twice":    {with: []string{"bridge", "bridge"}, want: theSet},
		"without":              {without: []string{"bandwidth", "vrf"}, want: theSet[1:13]},
		"without one left out": {without: []string{"dhcp"}, want: theSet},
		"only one":             {without: theSet[1:], want: theSet[:1]},
		"conflict":             {with: []string{"vrf"}, without: []string{"vrf"}, err: `plugin "vrf" is both asked for and left out: decide for one`},
		"unknown with":         {with: []string{"flannel"}, err: `unknown plugin "flannel": v1.9.1 has bandwidth, bridge, dhcp, dummy, firewall, host-device, host-local, ipvlan, loopback, macvlan, portmap, ptp, sbr, static, tap, tuning, vlan, vrf`},
		"unknown without":      {without: []string{"Bridge"}, err: `unknown plugin "Bridge": v1.9.1 has bandwidth, bridge, dhcp, dummy, firewall, host-device, host-local, ipvlan, loopback, macvlan, portmap, ptp, sbr, static, tap, tuning, vlan, vrf`},
		"path":                 {with: []string{"../bridge"}, err: `unknown plugin "../bridge": v1.9.1 has bandwidth, bridge, dhcp, dummy, firewall, host-device, host-local, ipvlan, loopback, macvlan, portmap, ptp, sbr, static, tap, tuning, vlan, vrf`},
		"nothing left":         {without: theSet, err: "no plugin is left to carry: leave out fewer"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := pin.Select(test.with, test.without)
			if test.err != "" {
				checkError(t, err, test.err)

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, names(got)); diff != "" {
				t.Errorf("selection (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectKeepsThePackage(t *testing.T) {
	t.Parallel()

	got, err := loadPin(t, profiles.DefaultPin).Select([]string{"dhcp"}, theSet)
	if err != nil {
		t.Fatal(err)
	}

	want := []profiles.Plugin{{Name: "dhcp", Kind: "ipam", Package: "plugins/ipam/dhcp"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selection (-want +got):\n%s", diff)
	}
}

// pinText is the default pin's YAML with replacements, given in pairs.
func pinText(t *testing.T, replacements ...string) string {
	t.Helper()

	data, err := os.ReadFile("pins/" + profiles.DefaultPin + ".yaml")
	if err != nil {
		t.Fatal(err)
	}

	return replace(t, string(data), replacements...)
}

func replace(t *testing.T, text string, replacements ...string) string {
	t.Helper()

	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("nothing to replace: %q", replacements[i])
		}

		text = strings.Replace(text, replacements[i], replacements[i+1], 1)
	}

	return text
}

// TestSecondPin: moving the pin is a new file, not new code.
func TestSecondPin(t *testing.T) {
	t.Parallel()

	text := pinText(t,
		"version: v1.9.1", "version: v1.10.0",
		"revision: 1", "revision: 3",
		"{name: bridge, kind: main, package: plugins/main/bridge}", "{name: nat64, kind: main, package: plugins/main/nat64}",
		"overlap: [bridge, firewall,", "overlap: [firewall,")

	name := filepath.Join(t.TempDir(), "next.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	pin := loadPin(t, name)

	if got := pin.PackagedVersion(); got != "v1.10.0-3" {
		t.Errorf("packaged version is %s", got)
	}

	if got := names(pin.Plugins); !slices.Contains(got, "nat64") || slices.Contains(got, "bridge") {
		t.Errorf("plugins are %v", got)
	}
}

func TestUnknownPin(t *testing.T) {
	t.Parallel()

	for _, version := range []string{"v0.0.1", "", "latest"} {
		_, err := profiles.LoadPin(version)
		checkError(t, err, `unknown pin "`+version+`": built in are `+strings.Join(profiles.Pins(), ", ")+
			`; a file of your own is named with a slash or ending in .yaml`)
	}
}

func TestPinValidation(t *testing.T) {
	t.Parallel()

	const (
		bridge = "{name: bridge, kind: main, package: plugins/main/bridge}"
		sum    = "h1:8oU6WsIsU3bpnNZuvHp74a6cE1MJwbj2P7s4/yTUNlA="
		modSum = "h1:fj7kS55qg3o/RgS+WGsF3+ZxwIImMPusQZKzBpcSr4c="
		sha    = "b98f74a0f8522f0a83867178729c1aa70f2158f90c45a2ca8fa791db1c76b303"
	)

	tests := map[string]struct{ from, to, want string }{
		"version":                {"version: v1.9.1", "version: 1.9.1-x", `version "1.9.1-x" is not a release tag like v1.9.1`},
		"version, two parts":     {"version: v1.9.1", "version: v1.9", `version "v1.9" is not a release tag like v1.9.1`},
		"version, a path":        {"version: v1.9.1", "version: v1.9.1-a/b", `version "v1.9.1-a/b" is not a release tag like v1.9.1`},
		"revision":               {"revision: 1", "revision: 0", `revision 0: packaging revisions start at 1`},
		"revision, negative":     {"revision: 1", "revision: -1", `revision -1: packaging revisions start at 1`},
		"module path missing":    {"path: github.com/containernetworking/plugins", `path: ""`, `module.path is missing`},
		"module path, option":    {"path: github.com/containernetworking/plugins", `path: -modfile`, `module.path "-modfile" is not a Go module path`},
		"module path, two":       {"path: github.com/containernetworking/plugins", `path: "a.b/c v1.0.0\nd.e/f"`, `module.path "a.b/c v1.0.0\nd.e/f" is not a Go module path`},
		"module sum":             {sum, "h1:short=", `module.sum "h1:short=" is not an h1: sum as go.sum has it`},
		"module sum, kind":       {sum, "h2" + sum[2:], `module.sum "h2` + sum[2:] + `" is not an h1: sum as go.sum has it`},
		"go.mod sum":             {modSum, modSum + "x", `module.goModSum "` + modSum + `x" is not an h1: sum as go.sum has it`},
		"version variable":       {"buildversion.BuildVersion", "buildversion.BuildVersion=1 -X main.x", `module.versionVariable "github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=1 -X main.x" is not IMPORT/PATH.Name`},
		"release address":        {"url: https:", "url: file:", `release.url "file://github.com/containernetworking/plugins/releases/download/{version}/cni-plugins-linux-{arch}-{version}.tgz" is not an http(s) address`},
		"release architecture":   {"    amd64: " + sha, "    x86: " + sha, `release.sha256: unsupported architecture "x86": use amd64, arm, arm64`},
		"release sum":            {sha, strings.ToUpper(sha), `release.sha256.amd64 "` + strings.ToUpper(sha) + `" is not 64 hexadecimal digits`},
		"plugin name":            {bridge, "{name: ../bridge, kind: main, package: plugins/main/bridge}", `plugin name "../bridge": use lower-case letters, digits and dashes`},
		"plugin name missing":    {bridge, "{kind: main, package: plugins/main/bridge}", `plugin name "": use lower-case letters, digits and dashes`},
		"plugin twice":           {bridge, bridge + "\n  - " + bridge, `plugin "bridge" is listed twice`},
		"plugin kind":            {bridge, "{name: bridge, kind: other, package: plugins/main/bridge}", `plugin "bridge": kind "other" is none of main, meta, ipam`},
		"plugin package":         {bridge, "{name: bridge, kind: main, package: ../bridge}", `plugin "bridge": package "../bridge" is not a directory inside the module`},
		"plugin package, rooted": {bridge, "{name: bridge, kind: main, package: /plugins/main/bridge}", `plugin "bridge": package "/plugins/main/bridge" is not a directory inside the module`},
		"plugin of another name": {bridge, "{name: bridge, kind: main, package: plugins/main/vlan}", `plugin "bridge": package "plugins/main/vlan" builds a program of another name`},
		"carried and left out":   {"name: dhcp\n", "name: bridge\n", `plugin "bridge" is listed twice`},
		"left out, no reason":    {"reason: needs a long-running daemon on the host, which an image layer cannot start", `reason: ""`, `leftOut: "dhcp" has no reason: say why it is not carried`},
		"marker writer":          {"writer: talos", "writer: Talos OS", `markers: writer "Talos OS": use lower-case letters, digits and dashes`},
		"marker twice":           {"writer: kube-ovn", "writer: talos", `markers: writer "talos" is listed twice`},
		"marker release":         {"release: v1.13.6", "release: 1.13.x", `markers: talos: release "1.13.x" is not a version like v1.13.6`},
		"marker overlap":         {"overlap: [bridge,", "overlap: [flannel,", `markers: talos: overlap "flannel" is not among this pin's plugins`},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := profiles.ParsePin("my.yaml", []byte(pinText(t, test.from, test.to)))
			checkError(t, err, "my.yaml: "+test.want)
		})
	}

	t.Run("no plugins", func(t *testing.T) {
		t.Parallel()

		text := pinText(t)
		from, to := strings.Index(text, "plugins:\n  - {name: bandwidth"), strings.Index(text, "\n# Shipped by upstream")

		_, err := profiles.ParsePin("my.yaml", []byte(text[:from]+"plugins: []\n"+text[to:]))
		checkError(t, err, "my.yaml: plugins is empty: a pin carries at least one")
	})
}

func FuzzParsePin(f *testing.F) {
	data, err := os.ReadFile("pins/" + profiles.DefaultPin + ".yaml")
	if err != nil {
		f.Fatal(err)
	}

	f.Add(data)
	f.Add([]byte("version: v1.9.1\nrevision: 1.5\n"))
	f.Add([]byte("plugins: &a [*a]\n---\n"))

	f.Fuzz(func(t *testing.T, data []byte) {
		pin, err := profiles.ParsePin("my.yaml", data)

		switch {
		case err == nil && (pin.Revision < 1 || len(pin.Plugins) == 0):
			t.Errorf("accepted a pin that cannot be built: %+v", pin)
		case err != nil && !strings.HasPrefix(err.Error(), "my.yaml: "):
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
