package payload

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// ErrNotELF says that a file is not an ELF program at all.
var ErrNotELF = errors.New("not an ELF program")

// machine is how an architecture shows in an ELF header.
type machine struct {
	machine elf.Machine
	class   elf.Class
}

var machines = map[string]machine{
	"amd64": {elf.EM_X86_64, elf.ELFCLASS64},
	"arm64": {elf.EM_AARCH64, elf.ELFCLASS64},
	"arm":   {elf.EM_ARM, elf.ELFCLASS32},
}

// Binary is what a program file says about itself.
type Binary struct {
	// Arch is the architecture in Go's names, or the ELF machine's name when it is none of ours.
	Arch string
	// Interpreter is the dynamic loader the program asks for; empty when it is static.
	Interpreter string
	// Libraries are the shared libraries the file needs.
	Libraries []string
	// BuildInfo is what the Go linker recorded; nil when the program is not Go's or was stripped of it.
	BuildInfo *debug.BuildInfo
}

// InspectELF is Inspect for programs that can run as plugins today: it does without package
// debug/buildinfo, which reads every other system's programs and those of Go before 1.18 too, and
// would make the installer 140 kB larger.
func InspectELF(r io.ReaderAt) (Binary, error) {
	file, err := elf.NewFile(r)
	if err != nil {
		return Binary{}, ErrNotELF
	}

	if file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return Binary{}, fmt.Errorf("ELF file of type %s is not a program", file.Type)
	}

	b := Binary{Arch: file.Machine.String()}

	for arch, m := range machines {
		if file.Machine == m.machine && file.Class == m.class && file.Data == elf.ELFDATA2LSB {
			b.Arch = arch
		}
	}

	if b.Interpreter, err = interpreter(file); err != nil {
		return Binary{}, err
	}

	// A file whose list cannot be read has none that a loader could use.
	b.Libraries, _ = file.ImportedLibraries()
	b.BuildInfo = inlineBuildInfo(file)

	return b, nil
}

// interpreter returns the dynamic loader that the kernel would start: the first that is named.
func interpreter(file *elf.File) (string, error) {
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}

		// The kernel refuses loader paths longer than PATH_MAX.
		name, err := io.ReadAll(io.LimitReader(segment.Open(), 4096))
		if err != nil {
			return "", fmt.Errorf("reading the ELF interpreter: %w", err)
		}

		if name = bytes.TrimRight(name, "\x00"); len(name) == 0 {
			return "", errors.New("ELF interpreter is empty")
		}

		return string(name), nil
	}

	return "", nil
}

// Check reports why a program cannot run as a plugin on a node of the architecture: the wrong
// machine, a library rather than a program, or a dynamic loader that the node may not have (the kernel
// then says "no such file").
func (b Binary) Check(arch string) error {
	if b.Arch != arch {
		return fmt.Errorf("is a program for %s, not for %s", b.Arch, arch)
	}

	if b.Interpreter != "" {
		return fmt.Errorf("is dynamically linked (needs %s), which a node may not have", b.Interpreter)
	}

	if len(b.Libraries) > 0 {
		return fmt.Errorf("is a shared library (needs %s), not a program", b.Libraries[0])
	}

	return nil
}
