package payload_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
)

func TestInspectRealPlugins(t *testing.T) {
	t.Parallel()

	for arch, level := range map[string][2]string{"amd64": {"GOAMD64", "v1"}, "arm64": {"GOARM64", "v8.0"}} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			set := buildertest.Plugins(t, arch)
			if len(set.Manifest.Plugins) != 14 {
				t.Fatalf("the set has %d plugins", len(set.Manifest.Plugins))
			}

			for _, plugin := range set.Manifest.Plugins {
				b, err := payload.InspectFile(set.Files[plugin.File].Path)
				if err != nil {
					t.Fatalf("%s: %v", plugin.Name, err)
				}

				if err := b.Check(arch); err != nil {
					t.Errorf("%s: %v", plugin.Name, err)
				}

				if m := b.Module(); m.Path != set.Manifest.Pin.Module || m.Version != "v1.9.1" || m.Sum != set.Manifest.Pin.Sum {
					t.Errorf("%s: module is %+v", plugin.Name, m)
				}

				if !strings.HasSuffix(b.BuildInfo.Path, "/"+plugin.Name) {
					t.Errorf("%s: package is %s", plugin.Name, b.BuildInfo.Path)
				}

				if got := b.Setting(level[0]); got != level[1] {
					t.Errorf("%s: %s is %q, want %q", plugin.Name, level[0], got, level[1])
				}

				if got := b.Setting("no such setting"); got != "" {
					t.Errorf("%s: a setting that is not there is %q", plugin.Name, got)
				}
			}
		})
	}
}

func TestCheckWrongArchitecture(t *testing.T) {
	t.Parallel()

	b, err := payload.InspectFile(buildertest.Plugins(t, "arm64").Files["bridge"].Path)
	if err != nil {
		t.Fatal(err)
	}

	const want = "is a program for arm64, not for amd64"
	if err := b.Check("amd64"); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestInspectHostProgram takes a program that every Linux host has and no node may run as a plugin.
func TestInspectHostProgram(t *testing.T) {
	t.Parallel()

	b, err := payload.InspectFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}

	if b.Arch != runtime.GOARCH || b.BuildInfo != nil || b.Module().Path != "" || b.Setting("GOOS") != "" {
		t.Errorf("inspected as %+v", b)
	}

	if !strings.HasPrefix(b.Interpreter, "/lib") {
		t.Fatalf("interpreter is %q", b.Interpreter)
	}

	want := "is dynamically linked (needs " + b.Interpreter + "), which a node may not have"
	if err := b.Check(runtime.GOARCH); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestInspectSharedLibrary: a library has no interpreter either, and runs nowhere.
func TestInspectSharedLibrary(t *testing.T) {
	t.Parallel()

	names, err := filepath.Glob("/usr/lib/*-linux-gnu/*.so.*")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range names {
		file, err := elf.Open(name)
		if err != nil {
			continue
		}

		needed, _ := file.ImportedLibraries()
		interpreted := file.Section(".interp") != nil
		file.Close()

		if len(needed) == 0 || interpreted {
			continue
		}

		b, err := payload.InspectFile(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		if err := b.Check(runtime.GOARCH); err == nil {
			t.Errorf("%s passes for a static program", name)
		}

		return
	}

	buildertest.Unavailable(t, "needs a shared library on this host")
}

func TestInspectFileAbsent(t *testing.T) {
	t.Parallel()

	if _, err := payload.InspectFile(filepath.Join(t.TempDir(), "bridge")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestInspectNotELF(t *testing.T) {
	t.Parallel()

	for name, content := range map[string]string{
		"empty":  "",
		"magic":  elf.ELFMAG,
		"script": "#!/bin/sh\nexit 0\n",
		"page":   "<!DOCTYPE html><html>404</html>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if _, err := payload.Inspect(strings.NewReader(content)); !errors.Is(err, payload.ErrNotELF) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// TestInspectTruncated: half-written plugins are refused or, where the header is whole, at least
// read without harm; their digest tells them apart then.
func TestInspectTruncated(t *testing.T) {
	t.Parallel()

	whole, err := os.ReadFile(buildertest.Plugins(t, "amd64").Files["static"].Path)
	if err != nil {
		t.Fatal(err)
	}

	for _, size := range []int{1, 4, 16, 20, 52, 63, 64, 100, 200, 4096, len(whole) / 2, len(whole) - 1} {
		b, err := payload.Inspect(bytes.NewReader(whole[:size]))
		if err == nil && b.Arch != "amd64" {
			t.Errorf("%d bytes are inspected as %+v", size, b)
		}

		if size <= 64 && !errors.Is(err, payload.ErrNotELF) {
			t.Errorf("%d bytes: error is %v", size, err)
		}
	}
}

// program is a small 64-bit little-endian ELF file with the program segments of these types.
type program struct {
	kind     elf.Type
	machine  elf.Machine
	class    elf.Class
	segments []segment
}

type segment struct {
	kind    elf.ProgType
	content string
	// size, when not 0, is what the header claims.
	size uint64
}

func (p program) bytes(t testing.TB) []byte {
	t.Helper()

	const headerSize, segmentSize = 64, 56

	header := elf.Header64{
		Type: uint16(p.kind), Machine: uint16(p.machine), Version: uint32(elf.EV_CURRENT), Entry: 0x400000,
		Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize, Phnum: uint16(len(p.segments)),
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(p.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)

	var out, content bytes.Buffer

	write := func(v any) {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}

	write(header)

	for _, s := range p.segments {
		size := s.size
		if size == 0 {
			size = uint64(len(s.content))
		}

		write(elf.Prog64{
			Type: uint32(s.kind), Off: uint64(headerSize + segmentSize*len(p.segments) + content.Len()), Filesz: size, Memsz: size,
		})
		content.WriteString(s.content)
	}

	return append(out.Bytes(), content.Bytes()...)
}

func TestInspectHeaders(t *testing.T) {
	t.Parallel()

	interpreter := func(name string) segment { return segment{kind: elf.PT_INTERP, content: name} }

	tests := map[string]struct {
		program program
		// inspect and check are the errors for amd64; empty for none.
		inspect, check string
	}{
		"static": {program: program{elf.ET_EXEC, elf.EM_X86_64, elf.ELFCLASS64, nil}},
		"static, position-independent": {
			program: program{elf.ET_DYN, elf.EM_X86_64, elf.ELFCLASS64, nil},
		},
		"dynamic": {
			program: program{elf.ET_DYN, elf.EM_X86_64, elf.ELFCLASS64, []segment{interpreter("/lib/ld.so\x00")}},
			check:   "is dynamically linked (needs /lib/ld.so), which a node may not have",
		},
		"first interpreter counts": {
			program: program{elf.ET_DYN, elf.EM_X86_64, elf.ELFCLASS64, []segment{interpreter("/lib/ld.so\x00"), interpreter("\x00")}},
			check:   "is dynamically linked (needs /lib/ld.so), which a node may not have",
		},
		"empty interpreter": {
			program: program{elf.ET_EXEC, elf.EM_X86_64, elf.ELFCLASS64, []segment{interpreter("\x00")}},
			inspect: "ELF interpreter is empty",
		},
		"endless interpreter": {
			program: program{elf.ET_EXEC, elf.EM_X86_64, elf.ELFCLASS64, []segment{interpreter(strings.Repeat("x", 10_000))}},
			check:   "is dynamically linked (needs " + strings.Repeat("x", 4096) + "), which a node may not have",
		},
		"object file": {
			program: program{elf.ET_REL, elf.EM_X86_64, elf.ELFCLASS64, nil},
			inspect: "ELF file of type ET_REL is not a program",
		},
		"core dump": {
			program: program{elf.ET_CORE, elf.EM_X86_64, elf.ELFCLASS64, nil},
			inspect: "ELF file of type ET_CORE is not a program",
		},
		"machine of none of ours": {
			program: program{elf.ET_EXEC, elf.EM_RISCV, elf.ELFCLASS64, nil},
			check:   "is a program for EM_RISCV, not for amd64",
		},
		"right machine, wrong class": {
			program: program{elf.ET_EXEC, elf.EM_ARM, elf.ELFCLASS64, nil},
			check:   "is a program for EM_ARM, not for amd64",
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b, err := payload.Inspect(bytes.NewReader(test.program.bytes(t)))
			compare(t, "inspecting", err, test.inspect)

			if err == nil {
				compare(t, "checking", b.Check("amd64"), test.check)
			}
		})
	}
}

func compare(t *testing.T, what string, err error, want string) {
	t.Helper()

	got := ""
	if err != nil {
		got = err.Error()
	}

	if got != want {
		t.Errorf("%s: error is %q, want %q", what, got, want)
	}
}

// FuzzInspect: no file may make the inspection panic or allocate far more than the file is long.
func FuzzInspect(f *testing.F) {
	f.Add(program{elf.ET_EXEC, elf.EM_X86_64, elf.ELFCLASS64, []segment{
		{elf.PT_INTERP, "/lib/ld.so\x00", 0}, {elf.PT_LOAD, "\xff Go buildinf:\x08\x02\x03abc", 1 << 40}, {elf.PT_DYNAMIC, "x", 1 << 62},
	}}.bytes(f))

	plugin, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}

	f.Add(plugin[:8<<10])

	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats

		runtime.ReadMemStats(&before)

		_, _ = payload.Inspect(bytes.NewReader(data))

		runtime.ReadMemStats(&after)

		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20+uint64(len(data))*16 {
			t.Errorf("%d bytes made the inspection allocate %d", len(data), grown)
		}
	})
}
