package payload

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"runtime/debug"
)

// Inspect reads the ELF header and Go build info of a program. A file that is not ELF gives ErrNotELF.
func Inspect(r io.ReaderAt) (Binary, error) {
	b, err := InspectELF(r)
	if err != nil {
		return Binary{}, err
	}

	if info, err := buildinfo.Read(r); err == nil {
		b.BuildInfo = info
	}

	return b, nil
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

const (
	buildInfoMagic = "\xff Go buildinf:"
	// The header is the magic, a byte for the size of pointers, one for flags, and padding.
	buildInfoHeader = 32
	// inlineStrings is the flag of Go 1.18 and later: two strings follow, each after its length as a
	// varint.
	inlineStrings = 2
	// maxBuildInfo bounds the section, which is under 20 kB in the largest programs there are.
	maxBuildInfo = 1 << 20
	// sentinel is how many bytes the linker puts before and after the list of modules.
	sentinel = 16
)

// inlineBuildInfo reads what the Go linker recorded in a section of its own; nil where it did not, or
// not in today's form.
func inlineBuildInfo(file *elf.File) *debug.BuildInfo {
	section := file.Section(".go.buildinfo")
	if section == nil || section.Type == elf.SHT_NOBITS {
		return nil
	}

	data, err := io.ReadAll(io.LimitReader(section.Open(), maxBuildInfo))
	if err != nil || len(data) < buildInfoHeader || string(data[:len(buildInfoMagic)]) != buildInfoMagic ||
		data[len(buildInfoMagic)+1]&inlineStrings == 0 {
		return nil
	}

	version, rest, ok := cutString(data[buildInfoHeader:])
	if !ok || version == "" {
		return nil
	}

	modules, _, ok := cutString(rest)
	if !ok {
		return nil
	}

	// Without the sentinels there are no modules.
	if len(modules) > 2*sentinel && modules[len(modules)-sentinel-1] == '\n' {
		modules = modules[sentinel : len(modules)-sentinel]
	} else {
		modules = ""
	}

	info, err := debug.ParseBuildInfo(modules)
	if err != nil {
		return nil
	}

	info.GoVersion = version

	return info
}

func cutString(data []byte) (s string, rest []byte, ok bool) {
	length, n := binary.Uvarint(data)
	if n <= 0 || length > uint64(len(data)-n) {
		return "", nil, false
	}

	data = data[n:]

	return string(data[:length]), data[length:], true
}
