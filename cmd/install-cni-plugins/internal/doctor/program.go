package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// How long a plugin may take to say its versions, and all of them together: who has waited longer
// asks no more.
const (
	answerWithin  = 5 * time.Second
	answersWithin = time.Minute
)

// fault is what is wrong with a plugin's file.
type fault struct {
	verdict Verdict
	text    string
}

// program is what was found out about a plugin's file.
type program struct {
	faults []fault
	// version is the release of the reference plugins it was built from, where it tells.
	version string
	// supported are the CNI versions it knows; nil where it could not be asked.
	supported []string
}

// inspect examines a file that was found under a plugin's name. Each file is examined once for a name:
// several names may be symlinks to one program, which goes by what it is called (k3s).
func (d *doctor) inspect(ctx context.Context, f *file, name string) *program {
	key := f.real + "\x00" + name

	p, ok := d.programs[key]
	if !ok {
		p = d.examine(ctx, f, name)
		d.programs[key] = p
	}

	return p
}

func (d *doctor) examine(ctx context.Context, f *file, name string) *program {
	p := &program{}
	add := func(v Verdict, format string, a ...any) {
		p.faults = append(p.faults, fault{v, say(format, a...)})
	}

	runs := true

	if f.stat.Mode&0o111 == 0 {
		add(NotExecutable, "has mode %04o: nobody may execute it", f.stat.Mode&0o7777)

		runs = false
	}

	if mountFlags(f.real)&unix.ST_NOEXEC != 0 {
		add(NoExec, "lies on a file system that is mounted noexec: nothing runs from it")

		runs = false
	}

	verdict, text, static := d.recognize(f, p)
	if verdict != "" {
		add(verdict, "%s", text)

		return p
	}

	// What needs a loader runs only where the node's root is this program's own.
	if !runs || !static && f.real != f.path || d.waited > answersWithin {
		return p
	}

	started := time.Now()
	defer func() { d.waited += time.Since(started) }()

	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %s", answerWithin))
	defer cancel()

	var err error
	if p.supported, err = payload.ProbeAs(ctx, f.real, name); err != nil {
		add(DoesNotRun, "does not run as a plugin: %s", err.Error())
	}

	return p
}

// recognize says why a file cannot be a plugin on this node, and whether it runs without a loader.
func (d *doctor) recognize(f *file, p *program) (verdict Verdict, text string, static bool) {
	r, err := f.open()
	if err != nil {
		return DoesNotRun, "cannot be read: " + reason(err), false
	}
	defer r.Close()

	head := make([]byte, 256)

	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return DoesNotRun, "cannot be read: " + reason(err), false
	}

	head = head[:n]

	switch {
	case n == 0:
		return NotAProgram, "is empty", false
	case bytes.HasPrefix(head, []byte("#!")):
		return d.recognizeScript(head)
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return NotAProgram, "is neither an ELF program nor a script", false
	case f.stat.Size > payload.MaxPluginSize:
		return NotAProgram, say("has %d bytes, more than any plugin", f.stat.Size), false
	}

	if isCutShort(r, f.stat.Size) {
		return Truncated, say("is an ELF program cut short after %d bytes", f.stat.Size), false
	}

	b, err := payload.InspectELF(r)
	if err != nil {
		return NotAProgram, "is no ELF program: " + err.Error(), false
	}

	p.version = b.LinkedModule("github.com/containernetworking/plugins").Version

	switch {
	case b.Arch != runtime.GOARCH && !(b.Arch == elf.EM_386.String() && runtime.GOARCH == "amd64"):
		return WrongArchitecture, say("is a program for %s; this node is %s", b.Arch, runtime.GOARCH), false
	case b.Interpreter != "":
		if d.lacks(b.Interpreter) {
			return Dynamic, say("is dynamically linked and needs %s, which the node has not", b.Interpreter), false
		}
	case len(b.Libraries) > 0:
		return NotAProgram, say("is a shared library (needs %s)", b.Libraries[0]), false
	}

	return "", "", b.Interpreter == ""
}

// recognizeScript looks for a script's interpreter.
func (d *doctor) recognizeScript(head []byte) (Verdict, string, bool) {
	line, _, _ := strings.Cut(string(head[2:]), "\n")

	name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !strings.HasPrefix(name, "/") {
		return NotAProgram, "is a script that names no interpreter", false
	}

	if d.lacks(name) {
		return Dynamic, say("is a script for %s, which the node has not", name), false
	}

	return "", "", false
}

// lacks reports whether the node is seen not to have a loader or interpreter.
func (d *doctor) lacks(path string) bool {
	f, err := d.node.resolve(path)

	return d.seesAll() && (err != nil || !f.isRegular())
}

// isCutShort reports whether an ELF file ends before what its headers promise.
func isCutShort(r io.ReaderAt, size int64) bool {
	file, err := elf.NewFile(r)
	if err != nil {
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}

	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && (p.Off > uint64(size) || p.Filesz > uint64(size)-p.Off) {
			return true
		}
	}

	return false
}

// mountFlags returns the flags of the mount that a path lies on; none where that cannot be told.
func mountFlags(path string) int64 {
	var st unix.Statfs_t

	_ = unix.Statfs(path, &st)

	return int64(st.Flags)
}
