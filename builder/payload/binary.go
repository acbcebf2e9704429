package payload

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
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

// Inspect reads the ELF header and Go build info of a program. A file that is not ELF gives ErrNotELF.
func Inspect(r io.ReaderAt) (Binary, error) {
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

	if info, err := buildinfo.Read(r); err == nil {
		b.BuildInfo = info
	}

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

// InspectFile is Inspect for a file name.
func InspectFile(name string) (Binary, error) {
	file, err := os.Open(name)
	if err != nil {
		return Binary{}, err
	}
	defer file.Close()

	return Inspect(file)
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

// Module returns the path, version and sum of the Go module that the program's main package
// belongs to; all empty when there is no build info.
func (b Binary) Module() debug.Module {
	if b.BuildInfo == nil {
		return debug.Module{}
	}

	return b.BuildInfo.Main
}

// LinkedModule returns the Go module of that path that the program was linked from, be it the main
// package's or a dependency; the zero Module when it is neither.
func (b Binary) LinkedModule(path string) debug.Module {
	if b.BuildInfo == nil {
		return debug.Module{}
	}

	if b.BuildInfo.Main.Path == path {
		return b.BuildInfo.Main
	}

	for _, dep := range b.BuildInfo.Deps {
		if dep.Path == path {
			return *dep
		}
	}

	return debug.Module{}
}

// Setting returns a build setting, such as GOAMD64 or -trimpath; empty when it was not recorded.
func (b Binary) Setting(key string) string {
	if b.BuildInfo == nil {
		return ""
	}

	for _, s := range b.BuildInfo.Settings {
		if s.Key == key {
			return s.Value
		}
	}

	return ""
}
