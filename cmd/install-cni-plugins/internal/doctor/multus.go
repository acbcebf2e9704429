package doctor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Where Multus looks for plugins and for the configurations of attachments that have none, unless its
// own configuration names other places.
const (
	defaultMultusBin     = "/opt/cni/bin"
	defaultMultusConfDir = "/etc/cni/multus/net.d"
)

// multusConf is what is needed of Multus's configuration: the daemon's, and what it writes for the
// runtime, which repeats most of it.
type multusConf struct{ Type, BinDir, ConfDir, ClusterNetwork string }

// container is what is needed of Multus's container to know what it sees.
type container struct {
	Name    string
	Command []string
	Env     []struct{ Name, Value string }
	Mounts  []struct{ Name, MountPath, SubPath string } `json:"volumeMounts"`
}

// podSpec is a pod with such a container.
type podSpec struct {
	Containers []container
	Volumes    []struct {
		Name     string
		HostPath *struct{ Path string }
	}
}

// daemon returns the container of Multus's daemon; nil where the pod is another one.
func (p *podSpec) daemon() *container {
	for i, c := range p.Containers {
		if c.Name == "kube-multus" || len(c.Command) > 0 && strings.HasSuffix(c.Command[0], "/multus-daemon") {
			return &p.Containers[i]
		}
	}

	return nil
}

// view returns what a container sees of the node.
func (p *podSpec) view(c *container, node *view) *view {
	v := &view{}

	for _, m := range c.Mounts {
		for _, volume := range p.Volumes {
			if volume.Name != m.Name || volume.HostPath == nil {
				continue
			}

			// What is not there is made when the container starts, or keeps it from starting.
			if f, err := node.resolve(filepath.Join("/", volume.HostPath.Path, m.SubPath)); err == nil {
				v.mounts = append(v.mounts, mount{filepath.Join("/", m.MountPath), f.real})
			}
		}
	}

	return v
}

// findMultus finds out where Multus looks for plugins, and what of the node its container sees.
func (d *doctor) findMultus(to *[]Finding) error {
	d.attachDirs, d.attachView = d.BinDirs, d.node

	for _, a := range d.objects.attachments {
		d.expectsMultus = d.expectsMultus || a.own
	}

	// What Multus wrote for the runtime is what it works with; the other two are what it is told.
	written := d.writtenMultus()
	config := written

	for _, given := range [][]byte{d.objects.daemonConfig, d.MultusConfig} {
		if given != nil {
			config = given
		}
	}

	pod, path := d.objects.multus, d.MultusPath
	if config == nil && pod == nil && d.MultusRoot == "" && path == nil {
		return nil
	}

	d.expectsMultus = true
	d.multusConf = multusConf{BinDir: defaultMultusBin, ConfDir: defaultMultusConfDir}

	if err := json.Unmarshal(config, &d.multusConf); config != nil && err != nil {
		d.refused(to, "Multus's configuration", config, err)
	}

	if pod != nil {
		c := pod.daemon()
		d.attachView = pod.view(c, d.node)
		d.examineNetNS(to, pod, c)

		for _, e := range c.Env {
			if e.Name == "CNI_PATH" && path == nil {
				path = filepath.SplitList(e.Value)
			}
		}
	}

	if d.MultusRoot != "" {
		d.attachView = rootView(d.MultusRoot)
		if f, err := d.attachView.resolve("/"); err != nil || !f.isDir() {
			return fmt.Errorf("%s is not a directory: name the root of Multus's container with --multus-root, /proc/PID/root of multus-daemon", d.MultusRoot)
		}
	}

	// Multus thin inherits the runtime's directories. Of the thick one's environment nothing is known
	// without its pod: it gets the benefit of the doubt.
	if path == nil && pod == nil || d.multusConf.Type == "multus" {
		path = d.BinDirs
	}

	if dir := d.multusConf.BinDir; filepath.IsAbs(dir) {
		d.attachDirs = append([]string{dir}, slices.DeleteFunc(slices.Clone(path), func(other string) bool { return other == dir })...)
		d.oneSided(to, dir, d.attachView)
	} else {
		d.correct(to, BadConfig, "binDir in Multus's configuration", "it is no absolute path")
	}

	d.examineClusterNetwork(to)

	return nil
}

// examineNetNS looks whether Multus has the pods' network namespaces, whose place differs on Talos.
func (d *doctor) examineNetNS(to *[]Finding, p *podSpec, c *container) {
	place := d.Distro.NetNSDir
	if place == "" || place == "/run/netns" {
		return
	}

	for _, m := range c.Mounts {
		for _, volume := range p.Volumes {
			if volume.Name == m.Name && volume.HostPath != nil && filepath.Clean(volume.HostPath.Path) == place {
				return
			}
		}
	}

	d.report(to, MultusNetNS, todo("Mount %s of the node into %s, instead of /run/netns (cnibake manifest multus --distro %s writes the patch).", place, multusName, d.Distro.Name),
		"%s has the pods' network namespaces in %s, which is not mounted into %s", d.Distro.Name, place, multusName)
}

// writtenMultus is the configuration that Multus has written for the runtime; nil where it cannot be
// read. What is wrong with it shows when the directory is examined.
func (d *doctor) writtenMultus() []byte {
	f, err := d.node.resolve(filepath.Join(d.ConfDir, multusFile))
	if err != nil {
		return nil
	}

	data, err := readText(f)
	if err != nil || json.Unmarshal(data, new(multusConf)) != nil {
		return nil
	}

	return data
}

// examineClusterNetwork looks for the file that Multus takes the pods' first network from. Its path is
// one in Multus's container; on the node the file lies in one of two directories.
func (d *doctor) examineClusterNetwork(to *[]Finding) {
	name := d.multusConf.ClusterNetwork
	if !filepath.IsAbs(name) || filepath.Ext(name) == "" || !d.seesAll() {
		return
	}

	for _, dir := range []string{d.ConfDir, defaultMultusConfDir, filepath.Dir(name)} {
		if f, err := d.node.resolve(filepath.Join(dir, filepath.Base(name))); err == nil && f.isRegular() {
			return
		}
	}

	d.report(to, BadConfig, todo("Start the CNI that writes %s, then restart Multus, which looks for it anew; where clusterNetwork is set in Multus's configuration, correct it.", filepath.Base(name)),
		"clusterNetwork of Multus is %s, which is not on %s", name, nodeName)
}

// oneSided reports a directory with plugins that is on the node only, or in the view of Multus only, or
// nowhere.
func (d *doctor) oneSided(to *[]Finding, dir string, v *view) bool {
	_, inside := v.resolve(dir)
	_, onNode := d.node.resolve(dir)

	switch {
	case inside != nil && onNode == nil:
		d.report(to, MultusBinDir, todo("Mount %s of the node into %s at the same path (cnibake manifest multus writes the patch), or set binDir to the directory that is mounted.", dir, multusName),
			"%s, where Multus looks for plugins, is on %s, but not in %s", dir, nodeName, multusName)
	case inside == nil && onNode != nil, v == d.node && onNode != nil && d.noBinDir(d.BinDirs) == nil:
		d.report(to, MultusBinDir, todo("Set binDir in Multus's configuration to the node's bin directory (%s), and mount that into %s at the same path (cnibake manifest multus writes the patch).", d.BinDirs[0], multusName),
			"%s, where Multus looks for plugins first, is not on %s, where they are run", dir, nodeName)
	default:
		return false
	}

	return true
}
