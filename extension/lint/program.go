package lint

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"

	"github.com/cnibake/cnibake/builder/payload"
)

// program is what rules want to know of an ELF file.
type program struct {
	// arch is the machine in Go's names, or the ELF machine's name.
	arch string
	// damaged is set when the file begins like ELF and cannot be read as such.
	damaged bool
	// executable is set for programs, with or without a dynamic loader; not for objects and libraries.
	executable bool
	// interpreter is the dynamic loader; empty for a static program.
	interpreter string
	// signed is set for a kernel module with a signature.
	signed bool
}

// signatureMark ends every signed kernel module.
var signatureMark = []byte("~Module signature appended~\n")

func inspectProgram(r io.ReaderAt, size int64) *program {
	p := &program{}

	tail := make([]byte, len(signatureMark))
	if n, err := r.ReadAt(tail, max(0, size-int64(len(tail)))); err == nil || errors.Is(err, io.EOF) {
		p.signed = bytes.Equal(tail[:n], signatureMark)
	}

	file, err := elf.NewFile(r)
	if err != nil {
		p.damaged = true

		return p
	}

	// The payload package knows programs; objects, such as kernel modules, have a machine only.
	if binary, err := payload.Inspect(r); err == nil {
		p.arch, p.interpreter = binary.Arch, binary.Interpreter
		p.executable = file.Type == elf.ET_EXEC || p.interpreter != "" || file.Entry != 0 && !isLibrary(file)
	} else {
		p.arch = machineName(file.Machine)
	}

	for _, segment := range file.Progs {
		if segment.Type == elf.PT_LOAD && segment.Off+segment.Filesz > uint64(size) {
			p.damaged = true
		}
	}

	return p
}

// isLibrary tells a shared library from a static program that may be loaded anywhere.
func isLibrary(file *elf.File) bool {
	names, err := file.DynString(elf.DT_SONAME)

	return err == nil && len(names) > 0
}

func machineName(machine elf.Machine) string {
	switch machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_ARM:
		return "arm"
	default:
		return machine.String()
	}
}
