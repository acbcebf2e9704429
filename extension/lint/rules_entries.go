package lint

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

var entryRules = []Rule{
	{
		ID: "entry-slash", Severity: Error, Refuses: []Step{StepNoSlash},
		Effect: `from 1.14 on the imager stops with "empty tar header path" at an entry called "/"`,
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.name != "" && strings.Trim(e.name, "/") == "" {
					s.found(e.name, "the entry is the root itself")
				}
			}
		},
	},
	{
		ID: "entry-name-empty", Severity: Error, Refuses: []Step{StepExtract},
		Effect: `the imager stops with "empty tar header path" (all versions)`,
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.name == "" {
					s.found("", "an entry has no name")
				}
			}
		},
	},
	{
		ID: "entry-root", Severity: Error, Refuses: []Step{StepExtract},
		Effect: "the root of the archive is a directory: an entry for it of another type stops the imager (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.path == "." && e.name != "" && !hasDotDot(e.name) && !e.isDir() && !isGlobalHeader(e) {
					s.found(e.name, "the entry for the root is %s", typeName(e.typ))
				}
			}
		},
	},
	{
		ID: "entry-dotdot", Severity: Error,
		Effect: `an entry with ".." in its name ends up somewhere else than it says; from 1.14 on the imager refuses images in which one leads out of the archive`,
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if hasDotDot(e.name) {
					s.found(e.name, "the name leads upwards")
				}
			}
		},
	},
	{
		ID: "entry-absolute", Severity: Note,
		Effect: "the leading slash is cut off; other tools may unpack the archive over their own root (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if strings.HasPrefix(e.name, "/") && strings.Trim(e.name, "/") != "" {
					s.found(e.name, "the name begins with a slash")
				}
			}
		},
	},
	{
		ID: "entry-name", Severity: Error,
		Effect: "names with control characters, backslashes or invalid UTF-8 come out differently from tool to tool, and some extractors refuse them (all versions)",
		tree:   func(s *scope) { checkNames(s, badName) },
	},
	{
		ID: "entry-name-long", Severity: Error, Refuses: []Step{StepExtract},
		Effect: `the imager stops with "file name too long" (all versions)`,
		tree:   func(s *scope) { checkNames(s, longName) },
	},
	{
		ID: "entry-name-space", Severity: Error, Refuses: []Step{StepSquash},
		Effect: "from 1.13 on the imager gives mksquashfs each label with its path on one line, where a space or quote ends the path: it stops",
		tree: func(s *scope) {
			for _, e := range s.labelled() {
				if strings.ContainsAny(e.path, " \t\"") {
					s.found(e.name, "the name of a labelled entry has a space or a quote")
				}
			}
		},
	},
	{
		ID: "entry-duplicate", Severity: Error, Refuses: []Step{StepExtract}, tarOnly: true,
		Effect: `the imager stops with "file exists"; in an image the later entry is silently lost (all versions)`,
		tree:   func(s *scope) { checkDuplicates(s, false) },
	},
	{
		ID: "entry-duplicate-dir", Severity: Error,
		Effect: "of a directory that an archive has more than once the last mode counts, in an image the first (all versions)",
		tree:   func(s *scope) { checkDuplicates(s, true) },
	},
	{
		ID: "entry-hardlink", Severity: Error,
		Effect: "a hard link becomes an empty file without a word: programs of that name do not start (all versions)",
		tree:   func(s *scope) { s.ofType("is a hard link to %s", tar.TypeLink) },
	},
	{
		ID: "entry-special", Severity: Error,
		Effect: "devices, FIFOs and everything else that is neither file, directory nor symbolic link become empty files without a word (all versions)",
		tree:   checkSpecial,
	},
	{
		ID: "entry-global-header", Severity: Error, Refuses: []Step{StepLoad},
		Effect: `a global PAX header, as git archive writes it, is unpacked as a file at the root: the imager stops with "unexpected file" (all versions)`,
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if isGlobalHeader(e) {
					s.found(e.name, "the archive has a global PAX header")
				}
			}
		},
	},
	{
		ID: "entry-whiteout", Severity: Error,
		Effect: "a whiteout deletes a file of a lower layer and is not one itself; in a plain tar it becomes a file of that name (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if strings.HasPrefix(path.Base(e.path), whiteoutPrefix) {
					s.found(e.name, "the entry is a whiteout")
				}
			}
		},
	},
	{
		ID: "entry-below-file", Severity: Error, Refuses: []Step{StepExtract}, tarOnly: true,
		Effect: "an entry below a file stops the imager; in an image it is silently lost (all versions)",
		tree:   func(s *scope) { checkBelow(s, false) },
	},
	{
		ID: "entry-below-symlink", Severity: Error,
		Effect: "an entry below a symbolic link is written to where the link leads, up to 1.13 even outside the archive; in an image it is silently lost",
		tree:   func(s *scope) { checkBelow(s, true) },
	},
	{
		ID: "entry-setuid", Severity: Error,
		Effect: "the imager keeps setuid and setgid: anyone who can start the program on the node gets its owner's rights (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if !e.isDir() && !e.isSymlink() && e.mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
					s.found(e.name, "the file has the mode %s", e.mode)
				}
			}
		},
	},
	{
		ID: "entry-unreadable", Severity: Error,
		Effect: "an imager that does not run as root cannot read the file it has just unpacked, and stops (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.isFile() && e.mode.Perm()&0o400 == 0 {
					s.found(e.name, "mode %04o does not let the owner read", e.mode.Perm())
				}
			}
		},
	},
	{
		ID: "world-writable", Severity: Error,
		Effect: "anything on the node that gets at the file or directory may change it; Talos's own check for this never fires (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if !e.isSymlink() && e.mode.Perm()&0o002 != 0 && !isGlobalHeader(e) {
					s.found(e.name, "mode %04o lets everyone write", e.mode.Perm())
				}
			}
		},
	},
	{
		ID: "group-writable", Severity: Warning,
		Effect: "a file that a group may write to is rarely meant: on the node it belongs to root's group (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.isFile() && e.mode.Perm()&0o022 == 0o020 {
					s.found(e.name, "mode %04o lets the group write", e.mode.Perm())
				}
			}
		},
	},
	{
		ID: "entry-owner", Severity: Warning,
		Effect: "Talos makes everything root's: other owners and groups are lost (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if (e.uid != 0 || e.gid != 0) && !isGlobalHeader(e) {
					s.found(e.name, "the entry belongs to %d:%d", e.uid, e.gid)
				}
			}
		},
	},
	{
		ID: "entry-attributes", Severity: Warning,
		Effect: "extended attributes such as file capabilities are lost; only the SELinux label is read (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if len(e.attributes) > 0 {
					s.found(e.name, "the entry has %s", strings.Join(e.attributes, ", "))
				}
			}
		},
	},
	{
		ID: "symlink-escape", Severity: Error,
		Effect: "a relative link out of the tree is silently left out of images by the imager from 1.14 on and by Image Factory",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.isSymlink() && !path.IsAbs(e.link) && leavesTree(e.path, e.link) {
					s.found(e.name, "the link to %s leads out of the archive", e.link)
				}
			}
		},
	},
	{
		ID: "symlink-empty", Severity: Error, Refuses: []Step{StepExtract},
		Effect: "a symbolic link without a target cannot be made: the imager stops (all versions)",
		tree: func(s *scope) {
			for _, e := range s.tree.entries {
				if e.isSymlink() && e.link == "" {
					s.found(e.name, "the link has no target")
				}
			}
		},
	},
}

func isGlobalHeader(e *entry) bool { return e.typ == tar.TypeXGlobalHeader }

func hasDotDot(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return true
		}
	}

	return false
}

func hasSpecialBits(mode fs.FileMode) bool {
	return mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0
}

func checkNames(s *scope, wrong func(what, text string) string) {
	for _, e := range s.tree.entries {
		for _, text := range []struct{ what, text string }{{"name", e.name}, {"link target", e.link}} {
			if why := wrong(text.what, text.text); why != "" {
				s.found(e.name, "%s", why)
			}
		}
	}
}

// badName returns what is wrong with a name or link target; empty when nothing is.
func badName(what, text string) string {
	switch {
	case !utf8.ValidString(text):
		return fmt.Sprintf("the %s is not valid UTF-8", what)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Sprintf("the %s has a control character", what)
	case strings.ContainsRune(text, '\\'):
		return fmt.Sprintf("the %s has a backslash", what)
	case len(text) > 1 && text[1] == ':':
		return fmt.Sprintf("the %s begins like that of a drive", what)
	default:
		return ""
	}
}

func longName(what, text string) string {
	// The kernel takes 4,095 bytes, of which the imager's own directory needs some.
	const longestPart, longest = 255, 3500

	if len(text) > longest {
		return fmt.Sprintf("the %s has more than %d bytes", what, longest)
	}

	for part := range strings.SplitSeq(text, "/") {
		if len(part) > longestPart {
			return fmt.Sprintf("a part of the %s has %d bytes, more than %d", what, len(part), longestPart)
		}
	}

	return ""
}

// checkDuplicates looks for paths that a layer has more than once.
func checkDuplicates(s *scope, dirs bool) {
	seen := make(map[string]*entry)

	for _, e := range s.tree.entries {
		if e.path == "." || e.dropped == dropWhiteout || e.dropped == dropHidden || isGlobalHeader(e) {
			continue
		}

		if first, ok := seen[e.path]; ok && first.layer == e.layer {
			if dirs == (e.isDir() && first.isDir()) {
				s.found(e.name, "the archive has this path more than once")
			}

			continue
		}

		seen[e.path] = e
	}
}

func checkSpecial(s *scope) {
	for _, e := range s.tree.entries {
		switch e.typ {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeXGlobalHeader:
		default:
			s.found(e.name, "the entry is %s", typeName(e.typ))
		}
	}
}

// ofType reports entries of a type; the message gets the link target.
func (s *scope) ofType(message string, typ byte) {
	for _, e := range s.tree.entries {
		if e.typ == typ {
			s.found(e.name, message, e.link)
		}
	}
}

// checkBelow looks for entries below something that is not a directory: a symbolic link or anything else.
func checkBelow(s *scope, symlinks bool) {
	// above remembers, for each directory, what above it or in its place is none.
	above := make(map[string]*entry)

	var blocking func(dir string) *entry

	blocking = func(dir string) *entry {
		if dir == "." {
			return nil
		}

		e, known := above[dir]
		if known {
			return e
		}

		if e = blocking(parent(dir)); e == nil {
			if here := s.tree.files[dir]; here != nil && !here.isDir() {
				e = here
			}
		}

		above[dir] = e

		return e
	}

	for _, e := range s.tree.entries {
		if e.dropped == dropWhiteout || e.dropped == dropDuplicate {
			continue
		}

		if b := blocking(parent(e.path)); b != nil && b.layer == e.layer && b.isSymlink() == symlinks {
			s.found(e.name, "%s is %s, not a directory", b.path, typeName(b.typ))
		}
	}
}

// leavesTree reports whether a relative link of an entry leads above the archive's root.
func leavesTree(name, link string) bool {
	target := path.Join(path.Dir(name), link)

	return target == ".." || strings.HasPrefix(target, "../")
}

func typeName(typ byte) string {
	switch typ {
	case tar.TypeReg:
		return "a file"
	case tar.TypeDir:
		return "a directory"
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeFifo:
		return "a FIFO"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	default:
		return fmt.Sprintf("of the tar type %q", typ)
	}
}
