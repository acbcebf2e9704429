package doctor

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// nodeWith makes a node's tree of files.
func nodeWith(t *testing.T, files map[string]string) *view {
	t.Helper()

	root := t.TempDir()

	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return rootView(root)
}

func compressed(t *testing.T, text string) string {
	t.Helper()

	var b bytes.Buffer

	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return b.String()
}

func TestDriversAreFound(t *testing.T) {
	t.Parallel()

	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}

	modules := "lib/modules/" + unix.ByteSliceToString(name.Release[:]) + "/"
	vrf, ifb := driver{module: "vrf", option: "CONFIG_NET_VRF"}, driver{module: "ifb", option: "CONFIG_IFB"}

	for title, test := range map[string]struct {
		files    map[string]string
		vrf, ifb state
	}{
		"nothing to see":  {map[string]string{}, unknown, unknown},
		"loaded":          {map[string]string{"proc/modules": "vrf 1 0 - Live 0x0\n"}, present, unknown},
		"in sysfs":        {map[string]string{"sys/module/vrf/refcnt": "0"}, present, unknown},
		"built in":        {map[string]string{modules + "modules.builtin": "kernel/drivers/net/vrf.ko\n", modules + "modules.dep": ""}, present, absent},
		"a file":          {map[string]string{modules + "modules.builtin": "", modules + "modules.dep": "kernel/drivers/net/vrf.ko.zst: kernel/x.ko.zst\n"}, loadable, absent},
		"no builtin list": {map[string]string{modules + "modules.dep": "kernel/drivers/net/vrf.ko: \n"}, loadable, unknown},
		"configuration":   {map[string]string{"proc/config.gz": compressed(t, "# CONFIG_IFB is not set\nCONFIG_NET_VRF=y\n")}, present, absent},
		"as a module":     {map[string]string{"proc/config.gz": compressed(t, "CONFIG_IFB=m\nCONFIG_NET_VRF=m\n"), "proc/modules": "ifb 1 0 - Live 0x0\n"}, loadable, present},
		"a module whose file is not there": {map[string]string{
			"proc/config.gz": compressed(t, "CONFIG_NET_VRF=m\n"), modules + "modules.builtin": "", modules + "modules.dep": "",
		}, absent, absent},
		"no configuration": {map[string]string{"proc/config.gz": "CONFIG_NET_VRF=y"}, unknown, unknown},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			test.files["proc/version"] = "Linux"

			k := newKernel(nodeWith(t, test.files))
			if got := k.has(vrf); got != test.vrf {
				t.Errorf("vrf is %d, want %d", got, test.vrf)
			}

			if got := k.has(ifb); got != test.ifb {
				t.Errorf("ifb is %d, want %d", got, test.ifb)
			}
		})
	}
}

// What is said of the kernel that runs here is what it does.
func TestDriversAreThoseOfThisKernel(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)
	testplugins.NeedTool(t, "ip", "iproute2")

	k := newKernel(rootView("/"))
	asked := 0

	for module, args := range map[string]string{
		"bridge": "type bridge", "macvlan": "link lo type macvlan", "ipvlan": "link lo type ipvlan", "8021q": "link lo type vlan id 5",
		"vrf": "type vrf table 10", "dummy": "type dummy", "ifb": "type ifb", "veth": "type veth",
	} {
		for _, d := range drivers {
			if d.module != module {
				continue
			}

			cmd := exec.Command("unshare", append([]string{"-n", "ip", "link", "add", "cnitest"}, strings.Fields(args)...)...)
			out, err := cmd.CombinedOutput()
			// Whatever else may be wrong: an unknown type is "not supported" or "Unknown device type".
			lacks := err != nil && (strings.Contains(string(out), "not supported") || strings.Contains(string(out), "Unknown device type"))

			switch got := k.has(d); {
			case got == present && lacks, got == absent && !lacks:
				t.Errorf("%s is %d, but: %v: %s", module, got, err, out)
			case got != unknown:
				asked++
			}

			break
		}
	}

	if asked == 0 {
		t.Log("this kernel does not tell what it has")
	}
}

// What a kernel's lists hold takes no more memory than the names that plugins need.
func FuzzKernelLists(f *testing.F) {
	f.Add([]byte("vrf 16384 0 - Live 0x0\n"))
	f.Add([]byte("kernel/drivers/net/vrf.ko.xz: kernel/x.ko.xz\n"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"))

	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(moduleNames(bytes.NewReader(data))); n > len(drivers) {
			t.Errorf("%d names", n)
		}

		if n := len(kernelConfig(bytes.NewReader(data))); n > len(drivers) {
			t.Errorf("%d options", n)
		}
	})
}
