package doctor

import (
	"bufio"
	"compress/flate"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// driver is what the kernel needs for a plugin's interfaces.
type driver struct {
	plugin, module, option string
	// key limits it to configurations in which that key has a value.
	key string
}

var drivers = []driver{
	{plugin: "bridge", module: "bridge", option: "CONFIG_BRIDGE"},
	{plugin: "bridge", module: "veth", option: "CONFIG_VETH"},
	{plugin: "ptp", module: "veth", option: "CONFIG_VETH"},
	{plugin: "macvlan", module: "macvlan", option: "CONFIG_MACVLAN"},
	{plugin: "ipvlan", module: "ipvlan", option: "CONFIG_IPVLAN"},
	{plugin: "vlan", module: "8021q", option: "CONFIG_VLAN_8021Q"},
	{plugin: "vrf", module: "vrf", option: "CONFIG_NET_VRF"},
	{plugin: "dummy", module: "dummy", option: "CONFIG_DUMMY"},
	{plugin: "tap", module: "tun", option: "CONFIG_TUN"},
	{plugin: "bandwidth", module: "sch_tbf", option: "CONFIG_NET_SCH_TBF"},
	{plugin: "bandwidth", module: "ifb", option: "CONFIG_IFB", key: "egressRate"},
}

// applies reports whether a plugin's configuration needs the driver.
func (n driver) applies(c *call) bool {
	if c.name != n.plugin || n.key == "" || c.Capabilities[n.plugin] {
		return c.name == n.plugin
	}

	var values map[string]json.RawMessage

	return json.Unmarshal(c.raw, &values) == nil && len(values[n.key]) > 0 && string(values[n.key]) != "0"
}

// state is how a kernel has a driver.
type state int

const (
	unknown state = iota
	present
	loadable
	absent
)

// kernel answers which drivers the running kernel has, as far as can be seen from here.
type kernel struct {
	release string
	// shown is where /proc and /sys are seen.
	shown *view
	// config has the options of the kernel's own configuration, where it tells.
	config map[string]string
	// loaded, builtin and files are names of modules; nil where that is not to be seen.
	loaded, builtin, files map[string]bool
}

// newKernel looks at the running kernel. The node's own /proc and /sys are preferred where the node's
// root shows them; those of a container are the same kernel's.
func newKernel(node *view) *kernel {
	k := &kernel{shown: node}
	if _, err := node.resolve("/proc/version"); err != nil {
		k.shown = rootView("/")
	}

	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.release = unix.ByteSliceToString(name.Release[:])
	}

	k.config = read(k.shown, "/proc/config.gz", kernelConfig)
	k.loaded = read(k.shown, "/proc/modules", moduleNames)

	for _, dir := range []string{"/lib/modules", "/usr/lib/modules"} {
		if k.files == nil {
			k.builtin = read(node, filepath.Join(dir, k.release, "modules.builtin"), moduleNames)
			k.files = read(node, filepath.Join(dir, k.release, "modules.dep"), moduleNames)
		}
	}

	return k
}

// read reads a file of a view; nil where there is none.
func read[T any](v *view, path string, parse func(io.Reader) map[string]T) map[string]T {
	f, err := v.resolve(path)
	if err != nil || !f.isRegular() {
		return nil
	}

	r, err := f.open()
	if err != nil {
		return nil
	}
	defer r.Close()

	return parse(r)
}

func (k *kernel) has(d driver) state {
	if k.loaded[d.module] || k.builtin[d.module] || k.config[d.option] == "y" {
		return present
	}

	if _, err := k.shown.resolve("/sys/module/" + d.module); err == nil {
		return present
	}

	switch {
	case k.files[d.module]:
		return loadable
	case k.config[d.option] == "m" && k.files == nil:
		return loadable
	case k.config != nil, k.files != nil && k.builtin != nil:
		return absent
	default:
		return unknown
	}
}

// kernelConfig reads the configuration that a kernel carries; nil where it carries none. The kernel's
// build compresses it without a name, so that what the header has is fixed.
func kernelConfig(file io.Reader) map[string]string {
	var header [10]byte
	if _, err := io.ReadFull(file, header[:]); err != nil || string(header[:4]) != "\x1f\x8b\x08\x00" {
		return nil
	}

	options := map[string]string{}

	for line := range lines(flate.NewReader(file)) {
		name, value, _ := strings.Cut(line, "=")

		for _, d := range drivers {
			if d.option == name {
				options[name] = value
			}
		}
	}

	return options
}

// moduleNames reads a list of modules: /proc/modules, modules.builtin or modules.dep.
func moduleNames(file io.Reader) map[string]bool {
	names := map[string]bool{}

	for line := range lines(file) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, ":")
		name, _, _ = strings.Cut(filepath.Base(name), ".ko")

		for _, d := range drivers {
			if d.module == strings.ReplaceAll(name, "-", "_") {
				names[d.module] = true
			}
		}
	}

	return names
}

// lines yields the lines of a text, up to a size that no kernel's lists reach.
func lines(r io.Reader) func(func(string) bool) {
	return func(yield func(string) bool) {
		scanner := bufio.NewScanner(io.LimitReader(r, 4<<20))
		scanner.Buffer(nil, 1<<20)

		for scanner.Scan() && yield(scanner.Text()) {
		}
	}
}

// examineKernel says which drivers a plugin's configuration needs and the kernel has not.
func (d *doctor) examineKernel(to *[]Finding, c *call) {
	for _, need := range drivers {
		if !need.applies(c) {
			continue
		}

		talos := d.Distro.Name == "talos"

		switch d.kernel.has(need) {
		case loadable:
			// Elsewhere the kernel asks for the module itself when the first interface is made.
			if talos {
				s := todo("Load the module: put this into the machine configuration (talosctl patch machineconfig --patch @FILE).")
				s.Do += "\nmachine:\n  kernel:\n    modules:\n      - name: " + need.module

				d.report(to, NoKernelDriver, s, "the module %s is not loaded, and Talos does not load modules on demand", need.module)
			}
		case absent:
			s := todo("Use a kernel that is built with %s, or another type: %s cannot work on this one.", need.option, need.plugin)

			switch {
			case talos && need.module == "ifb":
				s = todo("Upgrade Talos: from v1.12.10 and v1.13.7 on the kernel has ifb, as a module. Or leave out egressRate.")
			case talos:
				s = todo("Upgrade Talos, or use another type: this release's kernel has no %s.", need.module)
			}

			d.report(to, NoKernelDriver, s, "the running kernel, %s, has no %s", d.kernel.release, need.module)
		}
	}
}
