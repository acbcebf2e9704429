package corpus

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/hack/talos/imager"
)

// Outcome is what an imager makes of an extension.
type Outcome string

// Outcomes.
const (
	// Reject is an error: nobody gets an image, and somebody gets a message.
	Reject Outcome = "reject"
	// Ruin is an image with something in it that is not as the archive says, or harms the node.
	Ruin Outcome = "ruin"
	// Accept is an image that is as it should be.
	Accept Outcome = "accept"
)

// damage tells what is wrong with an extracted extension, from what the archive says and what is on
// disk. It knows nothing of lint's rules.
func damage(archive Archive, tree map[string]imager.Entry) []string {
	var ruined []string

	for _, entry := range archive {
		name := path.Clean("/" + entry.Name)[1:]

		switch entry.Typeflag {
		case tar.TypeLink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
			if tree[name].Mode.IsRegular() {
				ruined = append(ruined, fmt.Sprintf("%s is a regular file now", name))
			}
		}

		if found, ok := tree[name]; ok && entry.Typeflag == tar.TypeDir && !found.Mode.IsDir() {
			ruined = append(ruined, fmt.Sprintf("%s is no directory", name))
		}

		if slices.Contains(strings.Split(entry.Name, "/"), "..") {
			ruined = append(ruined, fmt.Sprintf("%s is somewhere else now", entry.Name))
		}

		if _, ok := tree[name]; !ok && name != "" {
			ruined = append(ruined, fmt.Sprintf("%s is not where the archive says", name))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(tree)) {
		switch entry := tree[name]; {
		case name == "." || !strings.HasPrefix(name+"/", "rootfs/"):
			// Does not reach the node.
		case shared[name] && entry.Mode != fs.ModeDir|0o755:
			ruined = append(ruined, fmt.Sprintf("%s would have mode %s on the node", name, entry.Mode))
		case entry.Mode&fs.ModeSymlink == 0 && entry.Mode&0o002 != 0:
			ruined = append(ruined, fmt.Sprintf("everybody may write to %s", name))
		case entry.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
			ruined = append(ruined, fmt.Sprintf("%s is setuid or setgid", name))
		case strings.HasPrefix(path.Base(name), ".wh."):
			ruined = append(ruined, fmt.Sprintf("%s is an ordinary file with a whiteout's name", name))
		case entry.Mode.IsRegular() && entry.Digest == emptyDigest:
			ruined = append(ruined, fmt.Sprintf("%s is empty", name))
		}
	}

	return ruined
}

// shared are the directories that the extension has in common with Talos: its modes become theirs.
var shared = map[string]bool{
	"rootfs": true, "rootfs/etc": true, "rootfs/etc/cri": true, "rootfs/etc/cri/conf.d": true, "rootfs/opt": true,
	"rootfs/usr": true, "rootfs/usr/local": true, "rootfs/usr/local/lib": true, "rootfs/usr/local/share": true,
}

const emptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
