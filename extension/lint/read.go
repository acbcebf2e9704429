package lint

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/rootfs"
)

// Bounds of what an untrusted artifact may make us keep.
const (
	// maxText is for manifests, service specs and parts of containerd's configuration.
	maxText = 1 << 20
	// maxSBOM is for one SPDX document, maxKept for all files of all trees together.
	maxSBOM = 32 << 20
	maxKept = 128 << 20
	// maxNames is for all names, link targets and attributes together, maxParts for the parts of one name.
	maxNames = 32 << 20
	maxParts = 200
	// maxName is the kernel's PATH_MAX; what is beyond it is cut off.
	maxName = 4096
)

// reader turns headers into entries.
type reader struct {
	work        string
	kept, names int64
}

var (
	errTooMuch = errors.New("the names in it take more memory than any extension's should")
	errTooDeep = fmt.Errorf("a name in it has more than %d parts", maxParts)
)

// entry keeps of a header and its content what rules look at.
func (r *reader) entry(h *tar.Header, content io.Reader) (*entry, error) {
	r.names += int64(min(len(h.Name), 2*maxName) + min(len(h.Linkname), 2*maxName) + 128)
	if r.names > maxNames {
		return nil, errTooMuch
	}

	e := &entry{
		name: clip(h.Name),
		typ:  h.Typeflag,
		mode: h.FileInfo().Mode(),
		link: clip(h.Linkname),
		size: h.Size,
		uid:  h.Uid, gid: h.Gid,
		label: clip(h.PAXRecords[selinuxRecord]),
	}
	e.path = cleanName(e.name)

	if strings.Count(e.path, "/") >= maxParts {
		return nil, errTooDeep
	}

	if e.typ == tar.TypeGNUSparse {
		e.typ = tar.TypeReg
	}

	for record := range h.PAXRecords {
		name, ok := xattrName(record)

		switch {
		case !ok || record == selinuxRecord:
		case name == "security.selinux":
			e.strayLabel = true
		case len(e.attributes) < 8:
			e.attributes = append(e.attributes, clip(name))
		}
	}

	slices.Sort(e.attributes)

	if e.isFile() {
		if err := r.content(e, content); err != nil {
			return nil, err
		}
	}

	return e, nil
}

// xattrName returns the extended attribute that a PAX record stands for.
func xattrName(record string) (string, bool) {
	if record == "RHT.security.selinux" {
		return "security.selinux", true
	}

	for _, prefix := range []string{"SCHILY.xattr.", "LIBARCHIVE.xattr."} {
		if name, ok := strings.CutPrefix(record, prefix); ok {
			return name, true
		}
	}

	return "", false
}

func clip(s string) string {
	// A copy, so that the archive's header can be freed.
	return strings.Clone(s[:min(len(s), 2*maxName)])
}

func (r *reader) content(e *entry, content io.Reader) error {
	if limit := keepLimit(e.path); limit > 0 {
		data, err := io.ReadAll(io.LimitReader(content, limit+1))
		if err != nil {
			return err
		}

		r.kept += int64(len(data))
		if int64(len(data)) <= limit && r.kept <= maxKept {
			e.data = data
		}

		return nil
	}

	buffered := bufio.NewReader(content)

	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	if !bytes.Equal(magic, []byte("\x7fELF")) {
		return nil
	}

	// Reading ELF needs random access, and a program may be too large to hold in memory.
	spool, err := os.Create(filepath.Join(r.work, "program"))
	if err != nil {
		return err
	}
	defer spool.Close()

	size, err := io.Copy(spool, buffered)
	if err != nil {
		return err
	}

	e.program = inspectProgram(spool, size)

	return nil
}

// keepLimit returns how many bytes of a file rules want to read at most; 0 means none.
func keepLimit(name string) int64 {
	if name == manifestName {
		return maxText
	}

	node, ok := nodePath(name)
	if !ok {
		return 0
	}

	switch dir, base := path.Split(node); {
	case dir == "/usr/local/share/spdx/" && strings.HasSuffix(base, ".spdx.json"):
		return maxSBOM
	case dir == "/etc/cri/conf.d/" && strings.HasSuffix(base, ".part"),
		dir == "/usr/local/etc/containers/" && strings.HasSuffix(base, ".yaml"):
		return maxText
	default:
		return 0
	}
}

// isDamage reports whether an error is about the content of an archive rather than the machine.
func isDamage(err error) bool {
	var pathError *fs.PathError

	return !errors.As(err, &pathError) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// readTree reads the entries of a tar archive.
func (r *reader) readTree(ctx context.Context, content io.Reader, visit func(*entry)) error {
	return rootfs.ReadTar(ctx, content, rootfs.DefaultReadLimits, func(h *tar.Header, body io.Reader) error {
		e, err := r.entry(h, body)
		if err != nil {
			return err
		}

		visit(e)

		return nil
	})
}

// readDirectory reads an unpacked extension.
func (r *reader) readDirectory(ctx context.Context, dir string) (*tree, error) {
	t := &tree{}

	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}

		if len(t.entries) >= rootfs.DefaultReadLimits.Entries {
			return errTooMuch
		}

		if err := ctx.Err(); err != nil {
			return err
		}

		e, err := r.file(dir, name, d)
		if err != nil {
			return err
		}

		t.entries = append(t.entries, e)

		return nil
	})
	if err != nil {
		return nil, err
	}

	t.finish()

	return t, nil
}

func (r *reader) file(dir, name string, d fs.DirEntry) (*entry, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}

	link := ""
	if info.Mode().Type() == fs.ModeSymlink {
		if link, err = os.Readlink(name); err != nil {
			return nil, err
		}
	}

	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		// A socket, which no archive can hold.
		h = &tar.Header{Typeflag: tar.TypeFifo, Mode: int64(info.Mode().Perm())}
	}

	relative, err := filepath.Rel(dir, name)
	if err != nil {
		return nil, err
	}

	h.Name = filepath.ToSlash(relative)
	h.PAXRecords = labelRecord(name)
	// Who unpacked the tree says nothing about who owns its files in an archive.
	h.Uid, h.Gid = 0, 0

	if h.Typeflag != tar.TypeReg {
		return r.entry(h, nil)
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return r.entry(h, io.LimitReader(file, rootfs.DefaultReadLimits.FileSize))
}
