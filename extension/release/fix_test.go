package release_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/release"
)

func writeFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()

	name := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}

	return name
}

func readPinned(t *testing.T, name string) release.Pinned {
	t.Helper()

	p, err := release.ReadMarkersFile(name)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// Only the release in the marker's line changes, byte by byte.
func TestMoveMarker(t *testing.T) {
	t.Parallel()

	pin, err := os.ReadFile("../../profiles/pins/v1.9.1.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct{ before, old, new string }{
		"comment":         {"# talos-cni-plugins-checked-against: v1.13.6 v1.13.6\nARG CNI_PLUGINS_VERSION=v1.9.1 # v1.13.6\n", "against: v1.13.6", "against: v1.13.9"},
		"CRLF":            {"a\r\n# talos-cni-plugins-checked-against: v1.13.6\r\nARG CNI_PLUGINS_VERSION=v1.9.1\r\nno end", "v1.13.6", "v1.13.9"},
		"quoted":          {"#talos-cni-plugins-checked-against: \"v1.13.6\"\nCNI_PLUGINS_VERSION: v1.9.1\n", "v1.13.6", "v1.13.9"},
		"without v":       {"# talos-cni-plugins-checked-against: 1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", "1.13.6", "1.13.9"},
		"other writer":    {"# kube-ovn-cni-plugins-checked-against: v1.13.6\n# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", "# talos-cni-plugins-checked-against: v1.13.6", "# talos-cni-plugins-checked-against: v1.13.9"},
		"other alphabets": {"# für v1.13.6 geprüft\nx: \"äöü\" # talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", "against: v1.13.6", "against: v1.13.9"},
		"our pin":         {string(pin), "release: v1.13.6", "release: v1.13.9"},
		"our pin, flow": {
			strings.Replace(string(pin), "- writer: talos\n    release: v1.13.6\n    overlap: [bridge, firewall, host-local, portmap]",
				"- {overlap: [], release: 'v1.13.6', writer: talos}", 1), "release: 'v1.13.6'", "release: 'v1.13.9'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if strings.Count(test.before, test.old) == 0 {
				t.Fatalf("the test's file lacks %q", test.old)
			}

			file := writeFile(t, test.before, 0o751)

			moved, err := readPinned(t, file).MoveMarker("talos", "v1.13.9")
			if err != nil {
				t.Fatal(err)
			}

			after, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(strings.Replace(test.before, test.old, test.new, 1), string(after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			if m, _ := moved.Marker("talos"); m.Release != "v1.13.9" {
				t.Errorf("the returned marker is %s", m.Release)
			}

			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}

			if info.Mode().Perm() != 0o751 {
				t.Errorf("mode is %v", info.Mode())
			}

			entries, err := os.ReadDir(filepath.Dir(file))
			if err != nil || len(entries) != 1 {
				t.Errorf("beside the file: %v, %v", entries, err)
			}
		})
	}
}

func TestMoveMarkerThroughLink(t *testing.T) {
	t.Parallel()

	file := writeFile(t, "# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n", 0o644)
	link := filepath.Join(t.TempDir(), "link")

	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}

	if _, err := readPinned(t, link).MoveMarker("talos", "v1.13.9"); err != nil {
		t.Fatal(err)
	}

	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}

	if m, _ := readPinned(t, file).Marker("talos"); m.Release != "v1.13.9" {
		t.Errorf("the file's marker is %s", m.Release)
	}
}

func TestMoveMarkerRefuses(t *testing.T) {
	t.Parallel()

	const text = "# talos-cni-plugins-checked-against: v1.13.6\nCNI_PLUGINS_VERSION: v1.9.1\n"

	t.Run("no such writer", func(t *testing.T) {
		t.Parallel()

		if _, err := readPinned(t, writeFile(t, text, 0o644)).MoveMarker("kube-ovn", "v1.15.10"); err == nil {
			t.Error("no error")
		}
	})

	t.Run("changed meanwhile", func(t *testing.T) {
		t.Parallel()

		file := writeFile(t, text, 0o644)
		p := readPinned(t, file)

		changed := "# one more line\n" + text
		if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := p.MoveMarker("talos", "v1.13.9"); err == nil || !strings.Contains(err.Error(), "has changed meanwhile") {
			t.Errorf("got %v", err)
		}

		if after, _ := os.ReadFile(file); string(after) != changed {
			t.Errorf("the file was written: %q", after)
		}
	})

	t.Run("built in", func(t *testing.T) {
		t.Parallel()

		p := release.Pinned{File: "built-in pin", BuiltIn: true, Markers: []release.Marker{{Writer: "talos", Release: "v1.13.6"}}}
		if _, err := p.MoveMarker("talos", "v1.13.9"); err == nil || !strings.Contains(err.Error(), "--marker") {
			t.Errorf("got %v", err)
		}
	})
}
