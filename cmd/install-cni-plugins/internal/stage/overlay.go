package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onOverlay reports whether a directory lies on an overlay. There a deletion leaves a whiteout in
// the upper directory, which hides what the lower layer has, and that is for good.
func (d *directory) onOverlay() bool {
	var st unix.Statfs_t

	return unix.Fstatfs(d.fd, &st) == nil && st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// overlay is where a directory's overlay has its layers, as the mount table tells.
type overlay struct {
	// inside is the directory's path within the overlay.
	inside string
	upper  string
	lower  []string
}

const mountinfo = "/proc/self/mountinfo"

// overlayOf finds the layers below an open directory; false where the mount table is not there or
// does not tell.
func (d *directory) overlayOf() (overlay, bool) {
	data, err := os.ReadFile(mountinfo)
	if err != nil {
		return overlay{}, false
	}

	var st unix.Stat_t
	if unix.Fstat(d.fd, &st) != nil {
		return overlay{}, false
	}

	path, err := filepath.Abs(d.path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}

	if err != nil {
		return overlay{}, false
	}

	return findOverlay(string(data), path, strconv.Itoa(int(unix.Major(st.Dev)))+":"+strconv.Itoa(int(unix.Minor(st.Dev))))
}

// findOverlay looks a path up in a mount table. The device number picks the right one of several
// mounts at one place.
func findOverlay(table, path, device string) (overlay, bool) {
	var (
		found overlay
		best  = -1
	)

	for line := range strings.Lines(table) {
		// ID parent major:minor root mountpoint options [tags] - type source superoptions
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)

		if !ok || len(fields) < 6 || len(rest) < 3 || rest[0] != "overlay" || fields[2] != device {
			continue
		}

		point := unescape(fields[4])

		below, ok := strings.CutPrefix(path, strings.TrimSuffix(point, "/"))
		if !ok || below != "" && below[0] != '/' || len(point) < best {
			continue
		}

		best = len(point)
		found = overlay{inside: filepath.Join("/", unescape(fields[3]), below)[1:]}
		found.upper, found.lower = layers(rest[2])
	}

	return found, best >= 0
}

// layers reads the layers from an overlay's options; lower is nil where they cannot be told.
func layers(options string) (upper string, lower []string) {
	sure := true

	for _, option := range split(options, ',') {
		key, value, _ := strings.Cut(option, "=")

		switch key {
		case "upperdir":
			upper = unescape(strings.ReplaceAll(value, `\,`, ","))
		case "lowerdir":
			for _, dir := range split(value, ':') {
				sure = sure && dir != "" // "::" introduces layers of data only
				lower = append(lower, unescape(strings.ReplaceAll(strings.ReplaceAll(dir, `\:`, ":"), `\,`, ",")))
			}
		case "lowerdir+":
			lower = append(lower, unescape(value))
		case "datadir+":
			sure = false
		}
	}

	if !sure {
		lower = nil
	}

	return upper, lower
}

// split cuts a list at a separator that no backslash stands before.
func split(s string, separator byte) []string {
	var parts []string

	start := 0

	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case separator:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}

	return append(parts, s[start:])
}

// unescape undoes the octal escapes of a mount table.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}

	var b strings.Builder

	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3

				continue
			}
		}

		b.WriteByte(s[i])
	}

	return b.String()
}

// lowerHolds reports whether the layers below a directory hold a name, as far as that can be told.
// The paths of the mount table are those of whoever mounted: they are believed only where the upper
// directory found by them holds the very file that is seen through the overlay.
func (d *directory) lowerHolds(name string) (holds, known bool) {
	o, ok := d.overlayOf()
	if !ok || o.upper == "" || len(o.lower) == 0 {
		return false, false
	}

	merged, err := d.lstat(name)
	if err != nil {
		return false, false
	}

	var upper unix.Stat_t
	if unix.Lstat(filepath.Join(o.upper, o.inside, name), &upper) != nil ||
		upper.Ino != merged.Ino || upper.Size != merged.Size || upper.Mtim != merged.Mtim {
		return false, false
	}

	self, err := d.stat()
	if err != nil || o.isRedirected() {
		return false, false
	}

	for _, lower := range o.lower {
		var dir, st unix.Stat_t

		path := filepath.Join(lower, o.inside)

		if err := unix.Stat(path, &dir); errors.Is(err, unix.ENOENT) && unix.Stat(lower, &dir) == nil && !sameDevice(dir, self) {
			continue
		} else if err != nil || sameDevice(dir, self) {
			// The overlay is mounted over its own lower directory, as on Talos.
			return false, false
		}

		switch err := unix.Lstat(filepath.Join(path, name), &st); {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			return false, false
		case isWhiteout(st):
			return false, true
		default:
			return true, true
		}
	}

	return false, true
}

// isRedirected reports whether a directory on the way to the bin directory was renamed through the
// overlay: what lies below it in the lower layers is then at another path. Without the right to see
// the attribute it may be.
func (o overlay) isRedirected() bool {
	path := o.upper

	for _, part := range strings.Split(o.inside, "/") {
		path = filepath.Join(path, part)

		for _, name := range []string{"trusted.overlay.redirect", "user.overlay.redirect"} {
			if _, err := unix.Lgetxattr(path, name, nil); err == nil {
				return true
			}
		}
	}

	return !capable(unix.CAP_SYS_ADMIN)
}

func sameDevice(a, b unix.Stat_t) bool {
	return a.Dev == b.Dev
}

// isWhiteout reports whether an entry of an upper directory stands for a deleted one.
func isWhiteout(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}
