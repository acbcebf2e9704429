package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// Shadow is how an entry of an overlay's upper directory stands to the baked file it hides.
type Shadow string

// The kinds of shadow.
const (
	// Same has equal bytes or the same pin: harmless today, but it will hide tomorrow's file.
	Same Shadow = "same"
	// Differing is anything else under that name.
	Differing Shadow = "differing"
	// Whiteout stands for a deletion.
	Whiteout Shadow = "whiteout"
)

// upper is the part of an overlay's upper directory that lies over a bin directory.
type upper struct {
	// dir is nil where the upper directory has nothing for the bin directory.
	dir *directory
	// blocked says what hides the bin directory as a whole, where something does.
	blocked string
}

func (u upper) close() {
	if u.dir != nil {
		u.dir.close()
	}
}

// openUpper finds a bin directory's part of an upper directory. The mount table knows where in the
// overlay the bin directory lies. Without it the end of the bin directory's path tells: the upper
// directory of /opt holds cni/bin for /opt/cni/bin and for /host/opt/cni/bin.
func (s *system) openUpper(path string, dst *directory) (upper, error) {
	top, err := s.openDirectory(path)
	if err != nil {
		return upper{}, err
	}
	defer top.close()

	o, _ := dst.overlayOf()

	if st, err := top.stat(); err == nil && o.upper != "" && isAt(o.upper, st) {
		u, _, err := top.descend(o.inside)

		return u, err
	}

	inside := []string{o.inside}

	parts := strings.Split(strings.Trim(recordKey(dst.path), "/"), "/")
	for i := range parts {
		inside = append(inside, filepath.Join(parts[i:]...))
	}

	for _, in := range append(inside, "") {
		u, found, err := top.descend(in)
		if err == nil && u.dir != nil {
			if err = u.dir.mayLieOver(dst); err != nil {
				u.close()
			}
		}

		if err != nil || found {
			return u, err
		}
	}

	return upper{}, nil
}

// mayLieOver refuses a directory that cannot be the upper one of the overlay that a bin directory is
// on. What looks like an upper entry there is the very file that the node uses.
func (d *directory) mayLieOver(dst *directory) error {
	mine, err := d.stat()
	if err != nil {
		return err
	}

	shown, err := dst.stat()
	if err != nil {
		return err
	}

	if mine.Dev == shown.Dev && (mine.Ino == shown.Ino || dst.onOverlay()) {
		return fmt.Errorf("%s is what the overlay shows, not its upper directory; on Talos that is /var/system/overlays/opt-diff", d.path)
	}

	o, _ := dst.overlayOf()

	for _, lower := range o.lower {
		if isAt(filepath.Join(lower, o.inside), mine) {
			return fmt.Errorf("%s is a lower layer of the overlay, not its upper directory", d.path)
		}
	}

	// In a container the path that the mount table names is usually not there.
	var st unix.Stat_t
	if o.upper != "" && unix.Stat(o.upper, &st) == nil && !isAt(filepath.Join(o.upper, o.inside), mine) {
		return fmt.Errorf("%s does not belong to the overlay's upper directory, which is %s", d.path, o.upper)
	}

	return nil
}

// isAt reports whether a path leads to what has been looked at.
func isAt(path string, st unix.Stat_t) bool {
	var other unix.Stat_t

	return unix.Stat(path, &other) == nil && other.Dev == st.Dev && other.Ino == st.Ino
}

// isShown reports whether the overlay shows what its upper directory has under a name, as it does
// until somebody changes the upper directory behind its back.
func (t target) isShown(ctx context.Context, dst *directory, name string) bool {
	shown, err := dst.look(ctx, name)

	switch {
	case err != nil:
		return false
	case isWhiteout(t.stat):
		return shown.kind == absent
	default:
		return shown.kind == t.kind && shown.link == t.link && shown.digest == t.digest
	}
}

// descend walks into an upper directory; found is false where there is no such path.
func (d *directory) descend(inside string) (u upper, found bool, err error) {
	path := d.path

	for _, part := range strings.FieldsFunc(inside, func(r rune) bool { return r == '/' }) {
		path = filepath.Join(path, part)

		var st unix.Stat_t
		if err := unix.Lstat(path, &st); errors.Is(err, unix.ENOENT) {
			return upper{}, false, nil
		} else if err != nil {
			return upper{}, false, err
		}

		switch {
		case isWhiteout(st):
			return upper{blocked: path + " is a whiteout: it hides the whole directory"}, true, nil
		case kindOf(st.Mode) != folder:
			return upper{blocked: fmt.Sprintf("%s is %s: it hides the whole directory", path, kindOf(st.Mode))}, true, nil
		case isOpaque(path):
			u.blocked = path + " is opaque: it hides all that the image has there"
		}
	}

	u.dir, err = d.sys.openDirectory(path)

	return u, err == nil, err
}

// isOpaque reports whether a directory of an upper directory hides the one below it. The attribute
// is visible to CAP_SYS_ADMIN only; without it the answer is no.
func isOpaque(path string) bool {
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		var value [1]byte
		if n, err := unix.Lgetxattr(path, name, value[:]); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}

	return false
}

// baked returns the manifest that is baked into the image beside the files. Only one that the upper
// directory does not hide proves what the layer below it holds.
func (u upper) baked(dst *directory) (m payload.Manifest, reason string) {
	if u.dir != nil {
		switch st, err := u.dir.lstat(payload.ManifestName); {
		case err == nil && isWhiteout(st):
			return m, fmt.Sprintf("%s is a whiteout, so the manifest of the image cannot be seen", u.dir.join(payload.ManifestName))
		case err == nil:
			return m, fmt.Sprintf("%s lies in the upper directory itself, so nothing here proves what the image holds", u.dir.join(payload.ManifestName))
		case !errors.Is(err, unix.ENOENT):
			return m, sentence(err)
		}
	}

	m, err := payload.ReadManifest(dst.join(payload.ManifestName))
	if err != nil {
		return payload.Manifest{}, fmt.Sprintf("the image has no readable manifest in %s: %v", dst.path, err)
	}

	return m, ""
}

// shadowOf tells what hides a name; false where nothing of that name is in the upper directory.
// digests are those that make a shadow the same.
func (u upper) shadowOf(ctx context.Context, name string, digests ...string) (shadow Shadow, t target, found bool, err error) {
	if u.dir == nil {
		return "", t, false, nil
	}

	if t, err = u.dir.look(ctx, name); err != nil || t.kind == absent {
		return "", t, false, err
	}

	if isWhiteout(t.stat) {
		return Whiteout, t, true, nil
	}

	for _, digest := range digests {
		if t.kind == regular && t.digest != "" && t.digest == digest {
			return Same, t, true, nil
		}
	}

	return Differing, t, true, nil
}

// sameDigests lists the digests with which a file is no differing shadow of a baked name: the baked
// one, and the payload's where that is of the same pin.
func sameDigests(name string, baked, carried payload.Manifest) []string {
	var digests []string

	if p, ok := baked.Lookup(name); ok {
		digests = append(digests, p.Digest)
	}

	if p, ok := carried.Lookup(name); ok && carried.SamePin(baked) {
		digests = append(digests, p.Digest)
	}

	return digests
}
