package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Attachments' plugins are looked for where Multus looks, as far as that is known.
func TestMultusDirectories(t *testing.T) {
	t.Parallel()

	pod := func(env string) string {
		return fmt.Sprintf(`{"kind": "Pod", "spec": {"containers": [{"name": "kube-multus", "env": [%s], "volumeMounts": [{"name": "a", "mountPath": "/opt/cni/bin"}]}], "volumes": [{"name": "a", "hostPath": {"path": "/opt/cni/bin"}}]}}`, env)
	}

	for name, test := range map[string]struct {
		written, given, objects string
		path, want              []string
	}{
		"no Multus":             {want: []string{"/a", "/opt/cni/bin"}},
		"thick":                 {written: `{"type": "multus-shim"}`, want: []string{"/opt/cni/bin", "/a"}},
		"thick, binDir":         {written: `{"type": "multus-shim", "binDir": "/b"}`, want: []string{"/b", "/a", "/opt/cni/bin"}},
		"thin":                  {written: `{"type": "multus", "binDir": "/b"}`, path: []string{"/p"}, want: []string{"/b", "/a", "/opt/cni/bin"}},
		"broken":                {written: `{"type": `, want: []string{"/a", "/opt/cni/bin"}},
		"given":                 {written: `{"binDir": "/w"}`, given: `{"binDir": "/g"}`, want: []string{"/g", "/a", "/opt/cni/bin"}},
		"ConfigMap":             {objects: `{"kind": "ConfigMap", "data": {"daemon-config.json": "{\"binDir\": \"/c\"}"}}`, want: []string{"/c", "/a", "/opt/cni/bin"}},
		"flag":                  {written: `{"type": "multus-shim"}`, path: []string{"/p"}, want: []string{"/opt/cni/bin", "/p"}},
		"pod without CNI_PATH":  {objects: pod(""), want: []string{"/opt/cni/bin"}},
		"pod with CNI_PATH":     {objects: pod(`{"name": "CNI_PATH", "value": "/x:/y"}`), want: []string{"/opt/cni/bin", "/x", "/y"}},
		"flag before pod":       {objects: pod(`{"name": "CNI_PATH", "value": "/x"}`), path: []string{"/p"}, want: []string{"/opt/cni/bin", "/p"}},
		"binDir is no path":     {given: `{"binDir": "bin"}`, want: []string{"/a", "/opt/cni/bin"}},
		"configuration is none": {given: `[`, want: []string{"/opt/cni/bin", "/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			root := t.TempDir()
			for _, dir := range []string{"a", "b", "c", "g", "w", "opt/cni/bin", "etc/cni/net.d"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}

			if test.written != "" {
				if err := os.WriteFile(filepath.Join(root, "etc/cni/net.d/00-multus.conf"), []byte(test.written), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			o := &Options{Root: root, BinDirs: []string{"/a", "/opt/cni/bin"}, ConfDir: "/etc/cni/net.d", MultusPath: test.path}
			if test.given != "" {
				o.MultusConfig = []byte(test.given)
			}

			d := &doctor{Options: o, node: rootView(root), objects: objects{vms: map[string]string{}}}

			if test.objects != "" {
				read, err := readObjects(test.objects)
				if err != nil {
					t.Fatal(err)
				}

				d.objects = *read
			}

			var found []Finding
			if err := d.findMultus(&found); err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, d.attachDirs); diff != "" {
				t.Errorf("want - got +:\n%s\n%+v", diff, found)
			}
		})
	}
}

// In a pod the paths of commands are those that a shell on the node has; what this program runs itself
// has its own.
func TestCommandsAreForAShellOnTheNode(t *testing.T) {
	t.Parallel()

	root := t.TempDir()

	d, err := Diagnose(t.Context(), &Options{
		Root: root, ShellRoot: "/", BinDirs: []string{"/opt/cni/bin"}, ConfDir: "/etc/cni/net.d", MayLackConfDir: true, Source: root,
		Inputs: []Input{{"nad", strings.NewReader(nad("lan", `{"type": "bridge"}`))}},
	})
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, s := range d.Advice {
		got = append(got, s.Commands...)
	}

	want := []string{"mkdir -p /opt/cni/bin", "install-cni-plugins install --source " + root + " --dest " + root + "/opt/cni/bin --only bridge --strict --create"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want - got +:\n%s", diff)
	}
}
