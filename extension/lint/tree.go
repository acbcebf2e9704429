package lint

import (
	"archive/tar"
	"io/fs"
	"path"
	"strings"

	"github.com/cnibake/cnibake/builder/oci"
)

const (
	manifestName = "manifest.yaml"
	rootfsName   = "rootfs"

	// selinuxRecord is the only PAX record Talos reads.
	selinuxRecord = "SCHILY.xattr.security.selinux"
)

// contents is what an artifact holds.
type contents struct {
	name string
	kind Kind
	// images of a layout or registry, in the order of the index; trees of all kinds.
	images []*image
	trees  []*tree
	// nestedIndexes are the digests of indexes inside the index.
	nestedIndexes []string
	// problems are what the readers ran into, by rule.
	problems []problem
}

// problem is the finding of a reader.
type problem struct {
	rule, path, arch, message string
}

// image is one image of an index.
type image struct {
	digest string
	// os and arch are the index's; empty without a platform there.
	hasPlatform bool
	os, arch    string
	// configArch is the image configuration's.
	configOS, configArch string
	// nested is set when another index lies between.
	nested bool
	layers int
}

// tree is one extension: the entries of a tar archive, in order, or those of an image as the imager's
// extractor emits them, the topmost layer first.
type tree struct {
	// arch is what the image says; empty for a plain tar or a directory.
	arch    string
	entries []*entry
	// files is what lies in the tree when all entries are unpacked, by path; the root is ".".
	files    map[string]*entry
	manifest manifest

	// What several rules read in the files, read once: see learn.
	parts       []part
	services    []service
	sboms       []sbom
	pluginDirs  []string
	moduleDirs  map[string][]string
	refusedFrom map[line][]string
}

// entry is one header of an archive.
type entry struct {
	// name is as written, path as Talos cleans it: relative, without a trailing slash.
	name, path string
	typ        byte
	mode       fs.FileMode
	link       string
	size       int64
	uid, gid   int
	// label is the SELinux label in the record Talos reads.
	label string
	// strayLabel is set when a label lies in a record that Talos does not read; attributes lists
	// other extended attributes.
	strayLabel bool
	attributes []string
	layer      int
	// dropped says why an image extractor leaves the entry out; empty when it does not.
	dropped dropReason

	// data is the content of the few kinds of files that rules read; nil when it is too large.
	data    []byte
	program *program
}

type dropReason string

const (
	dropDuplicate dropReason = "duplicate"
	dropWhiteout  dropReason = "whiteout"
	dropHidden    dropReason = "hidden"
)

func (e *entry) isDir() bool     { return e.typ == tar.TypeDir }
func (e *entry) isSymlink() bool { return e.typ == tar.TypeSymlink }
func (e *entry) isFile() bool    { return e.typ == tar.TypeReg }

// node returns the path on the node; false for what does not get there.
func (e *entry) node() (string, bool) { return nodePath(e.path) }

func nodePath(name string) (string, bool) {
	below, ok := strings.CutPrefix(name, rootfsName)
	if !ok || below != "" && below[0] != '/' {
		return "", false
	}

	return path.Clean("/" + below), true
}

// cleanName is what the imager makes of a name: no leading slash, no way out of the tree.
func cleanName(name string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+name), "/")
	if cleaned == "" {
		return "."
	}

	return cleaned
}

// learn reads the files that rules ask for again and again.
func (t *tree) learn(f *facts) {
	t.parts, t.services, t.sboms = readParts(t), readServices(t), readSBOMs(t)

	t.pluginDirs = []string{f.paths.PluginDir}
	for _, p := range t.parts {
		t.pluginDirs = append(t.pluginDirs, p.binDirs...)
	}

	t.moduleDirs = make(map[string][]string)
	for _, dir := range moduleDirs {
		t.moduleDirs[dir] = readKernels(t, dir)
	}

	t.refusedFrom = make(map[line][]string)
	for _, allowed := range f.paths.Allowed {
		t.refusedFrom[allowed.From] = notAllowed(t, allowed.Prefixes)
	}
}

// finish computes what lies in the tree after unpacking.
func (t *tree) finish() {
	t.files = make(map[string]*entry, len(t.entries))

	for _, e := range t.entries {
		if e.dropped != "" {
			continue
		}

		if _, ok := t.files[e.path]; !ok {
			t.files[e.path] = e
		}
	}
}

// hasFiles reports whether anything but directories gets to the node.
func (t *tree) hasFiles() bool {
	for name, e := range t.files {
		if strings.HasPrefix(name, rootfsName+"/") && !e.isDir() {
			return true
		}
	}

	return false
}

// at returns what lies at a path of the node, through symbolic links of the tree itself.
func (t *tree) at(node string) *entry {
	const mostLinks = 16

	for range mostLinks {
		e, rest := t.walk(node)
		if e == nil || !e.isSymlink() {
			return e
		}

		dir, _ := e.node()
		target := e.link

		if !path.IsAbs(target) {
			target = path.Join(path.Dir(dir), target)
		}

		node = path.Join("/", target, rest)
	}

	return nil
}

// walk returns the first symbolic link on the way to a path and what comes after it, or what lies there.
func (t *tree) walk(node string) (*entry, string) {
	clean := path.Clean("/" + node)

	for i := 1; i < len(clean); i++ {
		if clean[i] != '/' {
			continue
		}

		if e := t.files[rootfsName+clean[:i]]; e != nil && e.isSymlink() {
			return e, clean[i:]
		}
	}

	return t.files[strings.TrimSuffix(rootfsName+clean, "/")], ""
}

// compressionName says what a file is, for messages.
func compressionName(c oci.Compression) string {
	if c == oci.None {
		return "not compressed"
	}

	return string(c) + "-compressed"
}
