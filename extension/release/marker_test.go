package release_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/release"
	"github.com/cnibake/cnibake/profiles"
)

// markers is what a test wants of a file: the pin, and the release of each writer.
type markers struct {
	Version string
	Line    int
	Markers map[string]string
}

func summary(p release.Pinned) markers {
	m := markers{Version: p.Version, Line: p.Line, Markers: make(map[string]string)}
	for _, marker := range p.Markers {
		m.Markers[marker.Writer] = marker.Release
	}

	return m
}

// The forms in which people keep a version and a comment in their repositories.
func TestReadMarkers(t *testing.T) {
	t.Parallel()

	talos := map[string]string{"talos": "v1.13.6"}

	for name, test := range map[string]struct {
		text string
		want markers
	}{
		"Dockerfile": {
			"FROM scratch\n# talos-cni-plugins-checked-against: v1.13.6\nARG CNI_PLUGINS_VERSION=v1.9.1\nADD https://example.test/cni-${CNI_PLUGINS_VERSION}.tgz /\n",
			markers{"v1.9.1", 3, talos},
		},
		"Dockerfile, stages, one without a value": {
			"ARG CNI_PLUGINS_VERSION=v1.9.1\nFROM a\nARG CNI_PLUGINS_VERSION\nRUN echo $CNI_PLUGINS_VERSION ${CNI_PLUGINS_VERSION:-v0.0.1}\n#talos-cni-plugins-checked-against: v1.13.6",
			markers{"v1.9.1", 1, talos},
		},
		"Dockerfile, ENV quoted": {
			"ENV CNI_PLUGINS_VERSION=\"v1.9.1\"\n#   talos-cni-plugins-checked-against:   \"v1.13.6\"  \n",
			markers{"v1.9.1", 1, talos},
		},
		"Dockerfile, ENV without a sign": {
			"ENV CNI_PLUGINS_VERSION v1.9.1\n# talos-cni-plugins-checked-against v1.13.6\n",
			markers{"v1.9.1", 1, talos},
		},
		"marker behind the assignment": {
			"ARG CNI_PLUGINS_VERSION=v1.9.1 # talos-cni-plugins-checked-against: v1.13.6 (by hand)\n",
			markers{"v1.9.1", 1, talos},
		},
		"YAML": {
			"env:\n  # talos-cni-plugins-checked-against: v1.13.6\n  # kube-ovn-cni-plugins-checked-against: v1.15.10\n  CNI_PLUGINS_VERSION: v1.9.1 # renovate\n",
			markers{"v1.9.1", 4, map[string]string{"talos": "v1.13.6", "kube-ovn": "v1.15.10"}},
		},
		"YAML, quoted, in a flow mapping": {
			"env: {GOOS: linux, CNI_PLUGINS_VERSION: 'v1.9.1'}\n# talos-cni-plugins-checked-against: 'v1.13.6'\n",
			markers{"v1.9.1", 1, talos},
		},
		"Makefile": {
			"# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION ?= v1.9.1\nbuild:\n\tdocker build --build-arg CNI_PLUGINS_VERSION=$(CNI_PLUGINS_VERSION) .\n",
			markers{"v1.9.1", 2, talos},
		},
		"Makefile, continued command line": {
			"# talos-cni-plugins-checked-against: v1.13.6\nbuild:\n\tdocker build \\\n\t  --build-arg CNI_PLUGINS_VERSION=v1.9.1 .\n",
			markers{"v1.9.1", 4, talos},
		},
		"shell": {
			"export CNI_PLUGINS_VERSION='v1.9.1'; # talos-cni-plugins-checked-against: v1.13.6\n",
			markers{"v1.9.1", 1, talos},
		},
		"JSON with comments": {
			"{\n  // talos-cni-plugins-checked-against: v1.13.6\n  \"CNI_PLUGINS_VERSION\": \"v1.9.1\",\n}\n",
			markers{"v1.9.1", 3, talos},
		},
		"CRLF": {
			"# talos-cni-plugins-checked-against: v1.13.6\r\nARG CNI_PLUGINS_VERSION=v1.9.1\r\n",
			markers{"v1.9.1", 2, talos},
		},
		"without v": {
			"# talos-cni-plugins-checked-against: 1.13.6\nARG CNI_PLUGINS_VERSION=1.9.1\n",
			markers{"v1.9.1", 2, talos},
		},
		"pre-release": {
			"# talos-cni-plugins-checked-against: v1.13.0-beta.1\nARG CNI_PLUGINS_VERSION=v1.9.1\n",
			markers{"v1.9.1", 2, map[string]string{"talos": "v1.13.0-beta.1"}},
		},
		"commented-out assignment": {
			"# ARG CNI_PLUGINS_VERSION=v1.8.0\nARG CNI_PLUGINS_VERSION=v1.9.1\n# talos-cni-plugins-checked-against: v1.13.6\n",
			markers{"v1.9.1", 2, talos},
		},
		"another writer": {
			"# cilium-cni-plugins-checked-against: v1.18.0\nARG CNI_PLUGINS_VERSION=v1.9.1\n",
			markers{"v1.9.1", 2, map[string]string{"cilium": "v1.18.0"}},
		},
		"same assignment twice": {
			"ARG CNI_PLUGINS_VERSION=v1.9.1\nFROM a\nARG CNI_PLUGINS_VERSION=v1.9.1\n# talos-cni-plugins-checked-against: v1.13.6\n",
			markers{"v1.9.1", 1, talos},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, err := release.ReadMarkers("file", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, summary(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadMarkersRefuses(t *testing.T) {
	t.Parallel()

	const pin = "ARG CNI_PLUGINS_VERSION=v1.9.1\n"

	for name, test := range map[string]struct{ text, want string }{
		"no marker":             {pin, "file: no marker: add a comment like"},
		"nothing":               {"", "file: no marker"},
		"marker in prose":       {pin + "echo talos-cni-plugins-checked-against: v1.13.6\n", "file: no marker"},
		"empty marker":          {pin + "# talos-cni-plugins-checked-against:\n", "file: line 2: the marker for talos is empty"},
		"empty, quoted":         {pin + "# talos-cni-plugins-checked-against: \"\"\n", "line 2: the marker for talos is empty"},
		"no version":            {pin + "# talos-cni-plugins-checked-against: latest\n", `line 2: the marker for talos: "latest" is not a version like v1.13.6`},
		"half a version":        {pin + "# talos-cni-plugins-checked-against: v1.13\n", `"v1.13" is not a version`},
		"two markers":           {pin + "# talos-cni-plugins-checked-against: v1.13.6\n# talos-cni-plugins-checked-against: v1.13.9\n", "line 3: the marker for talos is v1.13.9, but v1.13.6 in line 2: keep one"},
		"the same marker twice": {pin + "# talos-cni-plugins-checked-against: v1.13.6\n# talos-cni-plugins-checked-against: v1.13.6\n", "line 3: the marker for talos stands in line 2 already"},
		"no writer":             {pin + "# -cni-plugins-checked-against: v1.13.6\n", `marker for ""`},
		"writer in capitals":    {pin + "# Talos-cni-plugins-checked-against: v1.13.6\n", `marker for "Talos": a writer's name is lower-case`},
		"no pin":                {"# talos-cni-plugins-checked-against: v1.13.6\n", "there is a marker, but no pin: add an assignment like CNI_PLUGINS_VERSION=v1.9.1"},
		"empty pin":             {"# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION=\n", "line 2: CNI_PLUGINS_VERSION is empty"},
		"two pins":              {"# talos-cni-plugins-checked-against: v1.13.6\n" + pin + "ENV CNI_PLUGINS_VERSION=v1.9.0\n", "line 3: CNI_PLUGINS_VERSION is v1.9.0, but v1.9.1 in line 2: decide for one"},
		"pin without version":   {"# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION=main\n", `CNI_PLUGINS_VERSION "main" is not a version`},
		"binary":                {"\x7fELF\x00\x00", "file: not a text file"},
		"too large":             {strings.Repeat("#\n", 1<<20), "more than a file with a marker can have"},
		"a pin of ours, broken": {"version: v1.9.1\nmodule: {goModSum: x}\nplugins: []\ncolour: blue\n", `unknown key "colour"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := release.ReadMarkers("file", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}

			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

// Our own pin files are markers too; the built-in one has no file that could be changed.
func TestPinFiles(t *testing.T) {
	t.Parallel()

	for _, version := range profiles.Pins() {
		pin, err := profiles.LoadPin(version)
		if err != nil {
			t.Fatal(err)
		}

		builtIn := release.FromPin(pin)

		read, err := release.ReadMarkersFile("../../profiles/pins/" + version + ".yaml")
		if err != nil {
			t.Fatal(err)
		}

		if !builtIn.BuiltIn || read.BuiltIn || read.Line == 0 {
			t.Errorf("%s: built in %v and %v, line %d", version, builtIn.BuiltIn, read.BuiltIn, read.Line)
		}

		a, b := summary(builtIn), summary(read)
		a.Line, b.Line = 0, 0

		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-built in +file):\n%s", version, diff)
		}
	}
}
