package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxConfFiles bounds how many entries of a configuration directory are read.
const maxConfFiles = 1024

// ciliumSuffix is what Cilium appends to other CNIs' configurations when it wants to be the only one.
const ciliumSuffix = ".cilium_bak"

// configFiles lists a directory's network configurations in the order in which the runtime takes them.
// Their paths are those by which they were found.
func (d *doctor) configFiles(dir string) []*file {
	names, _ := d.entries(dir)

	var files []*file

	for _, name := range names {
		switch filepath.Ext(name) {
		case ".conf", ".conflist", ".json":
			f, _ := d.node.resolve(filepath.Join(dir, name))
			f.path = filepath.Join(dir, name)

			if !f.isDir() {
				files = append(files, f)
			}
		}
	}

	return files
}

// entries lists a directory of the node, sorted.
func (d *doctor) entries(dir string) ([]string, error) {
	f, err := d.node.resolve(dir)
	if err != nil {
		return nil, err
	}

	r, err := os.OpenFile(f.real, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	names, err := r.Readdirnames(maxConfFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	slices.Sort(names)

	return names, nil
}

// readText reads a configuration file.
func readText(f *file) ([]byte, error) {
	if !f.isRegular() {
		return nil, errors.New("it is " + f.kind() + ", not a file")
	}

	r, err := f.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()

	return io.ReadAll(io.LimitReader(r, maxConfig+1))
}

// readConfig reads a network as the runtime does: by the file's extension.
func (d *doctor) readConfig(f *file) (*network, error) {
	data, err := readText(f)
	if err != nil {
		return nil, err
	}

	if filepath.Ext(f.path) != ".conflist" {
		return parseConf(data)
	}

	n, err := parseList(data)
	if err != nil || n.inlinedOnly || badName(n.name) {
		return n, err
	}

	// More plugins may lie in a directory of the network's name.
	for _, f := range d.configFiles(filepath.Join(filepath.Dir(f.path), n.name)) {
		if filepath.Ext(f.path) != ".conf" {
			continue
		}

		one, err := d.readConfig(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, withoutPosition(err))
		}

		n.plugins = append(n.plugins, one.plugins...)
	}

	return n, nil
}

// isMultus reports whether a network calls Multus.
func (n *network) isMultus() bool {
	for _, p := range n.plugins {
		if p.Type == "multus" || p.Type == "multus-shim" {
			return true
		}
	}

	return false
}

// examineConfDir examines every network of the runtime's configuration directory, and who writes there.
func (d *doctor) examineConfDir(ctx context.Context, out *Diagnosis) {
	names, err := d.entries(d.ConfDir)
	files := d.configFiles(d.ConfDir)
	start := todo("Start the CNI that writes there, or name the node's own configuration directory with --conf-dir%s.", d.known(d.Distro.ConfDir, d.ConfDir))

	switch {
	case err == nil && len(names) == 0 && !d.expectsMultus:
		d.report(&out.Node, ConfDirMissing, start, "%s, the configuration directory, is empty: the runtime has no network for pods", d.ConfDir)
	case err != nil && (!d.MayLackConfDir || d.seesAll()):
		d.report(&out.Node, ConfDirMissing, start, "%s, the configuration directory: %s", d.ConfDir, reason(err))
	}

	multus := -1

	for i, f := range files {
		a := newAttachment(filepath.Base(f.path), f.path)

		n, err := d.readConfig(f)
		if err != nil {
			data, _ := readText(f)
			d.refused(&a.Findings, f.path, data, err)
		} else {
			d.examineNetwork(ctx, &a, n, d.node, d.BinDirs)
		}

		// What cannot be read is judged by its name.
		if multus < 0 && (err == nil && n.isMultus() || err != nil && a.Name == multusFile) {
			multus = i
		}

		out.Attachments = append(out.Attachments, a)
	}

	if err == nil {
		d.examineWriters(&out.Node, names, files, multus)
	}
}

// examineWriters says whether the runtime calls Multus, and keeps calling it. multus is the index of
// its configuration, -1 where there is none.
func (d *doctor) examineWriters(to *[]Finding, names []string, files []*file, multus int) {
	renamed := false

	for _, name := range names {
		if original, ok := strings.CutSuffix(name, ciliumSuffix); ok {
			renamed = renamed || original == multusFile
			d.ciliumBackup(to, name, original, slices.Contains(names, original))
		}
	}

	path := filepath.Join(d.ConfDir, multusFile)

	switch {
	case multus < 0 && d.expectsMultus && !renamed: // else renaming it back is the cure
		d.report(to, MultusConfAbsent, todo("Restart Multus, which writes %s: kubectl -n kube-system rollout restart daemonset kube-multus-ds. Where it does not, its log says why.", path),
			"%s is absent: the runtime does not call Multus, and pods silently get no attachment", path)
	case multus > 0:
		d.report(to, MultusNotFirst, d.moveAway(files[:multus]), "the runtime takes %s, which sorts before %s: Multus is never called", files[0].path, files[multus].path)
	case multus == 0 && len(files) > 1:
		d.report(to, SecondWriter, d.moveAway(files[1:]),
			"%s lies beside %s: Multus deletes its own when it stops, and a pod that is created before it is there again silently gets no attachment", files[1].path, files[0].path)
	}
}

// multusFile is what Multus calls its configuration.
const multusFile = "00-multus.conf"

// moveAway is letting Multus be the only writer of the directory.
func (d *doctor) moveAway(files []*file) *Step {
	if d.Distro.Name == "k3s" {
		return todo("The flannel of k3s writes nowhere else: cordon a node before Multus is restarted on it.")
	}

	to := d.inShell(d.real(defaultMultusConfDir))
	s := todo("Let Multus be the only writer of %s: make the primary CNI write to %s and set multusAutoconfigDir to where Multus sees that (cnibake manifest multus --primary writes both). Then move what is there.",
		d.ConfDir, defaultMultusConfDir).run("mkdir", "-p", to)

	for _, f := range files {
		s.run("mv", d.inShell(d.realEntry(f.path)), to+"/")
	}

	return s
}

// ciliumBackup reports a configuration that Cilium has put out of use.
func (d *doctor) ciliumBackup(to *[]Finding, name, original string, there bool) {
	path := filepath.Join(d.ConfDir, name)
	s := todo("Set cni.exclusive=false in Cilium's values, so that it leaves other configurations alone; then put back what it renamed, or remove it where the original is there again.")

	if there {
		s.run("rm", d.inShell(d.realEntry(path)))
	} else {
		s.run("mv", d.inShell(d.realEntry(path)), d.inShell(d.realEntry(filepath.Join(d.ConfDir, original))))
	}

	d.report(to, CiliumBackup, s, "%s: Cilium has renamed a configuration that is not its own, so the runtime does not use it", path)
}
