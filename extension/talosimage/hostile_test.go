package talosimage_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/extension/talosimage"
)

// childVariable makes the test program resolve one source and end, so that its memory can be measured.
const childVariable = "CNIBAKE_TEST_RESOLVE"

func TestMain(m *testing.M) {
	source, child := os.LookupEnv(childVariable)
	if !child {
		os.Exit(m.Run())
	}

	all, err := talosimage.Resolve(context.Background(), source, talosimage.Options{Stdin: os.Stdin, TempDir: os.TempDir()})
	if err != nil {
		fmt.Println("error:", err)
	} else {
		fmt.Printf("found: %v\n", brief(all))
	}

	// Not from the parent: it would count its own memory as well, which the child had until exec.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}

	fmt.Printf("%s\n", residentPattern.Find(status))
}

var residentPattern = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// maxResident is what any input may make us keep in memory, in bytes.
const maxResident = 256 << 20

// resolveInChild resolves a source in another process and returns what it says.
func resolveInChild(t *testing.T, source string, stdin io.Reader) string {
	t.Helper()

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	temp := t.TempDir()

	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"="+source, "TMPDIR="+temp)
	cmd.Stdin = stdin

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}

	match := residentPattern.FindSubmatch(out)
	if match == nil {
		t.Fatalf("no VmHWM: %.2000s", out)
	}

	resident, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}

	resident <<= 10

	t.Logf("%3d MiB, %4d ms of CPU: %.200s", resident>>20, cmd.ProcessState.UserTime().Milliseconds(), out)

	if resident > maxResident {
		t.Errorf("%d MiB resident, more than %d", resident>>20, maxResident>>20)
	}

	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	return string(out)
}

// sparse makes a file of a size without writing it all.
func sparse(t *testing.T, size int64, start []byte) string {
	t.Helper()

	name := save(t, "input", start)
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}

	return name
}

// rle is a zstd frame that unpacks to size zeros, or to anything that repeats one byte.
func rle(window byte, size int64) []byte {
	const block = 128 << 10

	// Magic, a descriptor without any option, the window.
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, window}
	for ; size > 0; size -= block {
		v := uint32(min(size, block))<<3 | 1<<1
		if size <= block {
			v |= 1
		}

		out = append(out, byte(v), byte(v>>8), byte(v>>16), 0)
	}

	return out
}

// raw is a zstd frame that stores data.
func raw(data []byte) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}

	for len(data) > 0 {
		n := min(len(data), 128<<10)
		v := uint32(n) << 3

		if n == len(data) {
			v |= 1
		}

		out = append(append(out, byte(v), byte(v>>8), byte(v>>16)), data[:n]...)
		data = data[n:]
	}

	return out
}

const mebibyte = 1 << 20

// Hostile and enormous inputs end in an error, within bounded memory, and leave no files.
func TestHostile(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("unpacks gigabytes")
	}

	squash := rootfs(t, talos{release: "v1.13.6", sbom: "v1.9.1"}, "zstd")

	patched := func(offset int, with ...byte) []byte {
		out := bytes.Clone(squash)
		copy(out[offset:], with)

		return out
	}

	for name, test := range map[string]struct {
		source func(t *testing.T) string
		want   string
	}{
		"200 MB of nothing":   {func(t *testing.T) string { return sparse(t, 200*mebibyte, nil) }, "more than such a text can have"},
		"200 MB of YAML":      {func(t *testing.T) string { return sparse(t, 200*mebibyte, []byte("version: v1.13.6\ninput: [")) }, "more than such a text can have"},
		"32 MB of YAML":       {func(t *testing.T) string { return save(t, "x", bytes.Repeat([]byte("- a\n"), 8*mebibyte)) }, "more than such a text can have"},
		"4 MB of YAML":        {func(t *testing.T) string { return save(t, "x", bytes.Repeat([]byte("- a\n"), mebibyte-1)) }, "more than 200000"},
		"YAML at the limit":   {func(t *testing.T) string { return save(t, "x", bytes.Repeat([]byte("- aaaaaaaaaaaaaaa\n"), 99_000)) }, "not recognised"},
		"deep YAML":           {func(t *testing.T) string { return save(t, "x", bytes.Repeat([]byte("["), 190_000)) }, "exceeded max depth"},
		"deep YAML, by lines": {func(t *testing.T) string { return save(t, "x", deepLines(1500)) }, "not recognised"},
		"SPDX of 10M packages": {func(t *testing.T) string {
			return save(t, "x", []byte(`{"spdxVersion":"SPDX-2.3","packages":[`+strings.Repeat("{},", 10*mebibyte)+`{}]}`))
		}, "more than 100000 packages"},
		"SPDX, one package": {func(t *testing.T) string {
			return save(t, "x", []byte(`{"spdxVersion":"SPDX-2.3","packages":[{"x":"`+strings.Repeat("x", 31*mebibyte)+`"}]}`))
		}, "a package of 3"},
		"SPDX, deep": {func(t *testing.T) string {
			return save(t, "x", []byte(`{"spdxVersion":"SPDX-2.3","x":`+strings.Repeat("[", 31*mebibyte)))
		}, "brackets are open"},
		"SPDX, references": {func(t *testing.T) string {
			return save(t, "x", []byte(`{"spdxVersion":"SPDX-2.3","packages":[{"externalRefs":[`+strings.Repeat("{},", 340_000)+`{}]}]}`))
		}, "no package cni"},
		"JSON, deep": {func(t *testing.T) string { return save(t, "x", []byte(strings.Repeat(`{"a":`, 700_000))) }, "error"},

		"cpio without end, zeros":    {part(func() []byte { return concat(microcode(t), rle(0x58, 5<<30)) }), "unpacks to more than any image"},
		"cpio without end, entries":  {part(func() []byte { return raw(bytes.Repeat(newc("x", 0o100644, 0), 150_000)) }), "more than 100000 entries"},
		"cpio without end, one file": {part(func() []byte { return append(newc("rootfs.sqsh", 0o100644, 0xffffffff), make([]byte, mebibyte)...) }), "more than 1073741824"},
		"cpio without end, skipped":  {part(func() []byte { return append(raw(newc("x", 0o100644, 0xffffffff)), rle(0x58, 5<<30)...) }), "unexpected EOF"},
		"cpio of links":              {part(func() []byte { return bytes.Repeat(append(newc("x", 0o120777, 4096), make([]byte, 4096)...), 40_000) }), "unexpected EOF"},
		"zstd window of 1 GiB":       {part(func() []byte { return rle(0xa0, 4<<30) }), "window"},
		"zstd window of 32 MiB":      {part(func() []byte { return concat(bytes.Repeat(append(rle(0x78, 64<<20), raw(microcode(t))...), 4)) }), "no rootfs.sqsh"},
		"zstd, a skippable frame":    {part(func() []byte { return concat(microcode(t), []byte("\x50\x2a\x4d\x18\xff\xff\xff\x7f")) }), "unexpected EOF"},
		"xz dictionary of 4 GiB":     {part(func() []byte { return xzDictionary(40) }), "exceeds max"},
		"xz, many streams":           {part(func() []byte { return bytes.Repeat(compress(t, "xz", make([]byte, mebibyte)), 300) }), "no cpio archive in it"},
		"gzip bomb":                  {part(func() []byte { return bytes.Repeat(compress(t, "gzip", make([]byte, 100*mebibyte)), 50) }), "unpacks to more than any image"},

		"squashfs, block size":        {part(func() []byte { return patched(12, 0, 0, 0, 0x80) }), "block size"},
		"squashfs, root inode":        {part(func() []byte { return patched(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f) }), "etc/os-release"},
		"squashfs, inode table":       {part(func() []byte { return patched(64, 0, 0, 0, 0, 0, 0, 0, 0) }), "etc/os-release"},
		"squashfs, fragments":         {part(func() []byte { return patched(80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f) }), "fragment table"},
		"squashfs, compression":       {part(func() []byte { return patched(20, 5, 0) }), "compression 5 (lz4)"},
		"squashfs, other compression": {part(func() []byte { return patched(20, 1, 0) }), "decompressing a block"},
		"squashfs, cut":               {part(func() []byte { return squash[:len(squash)/2] }), "etc/os-release"},
		"squashfs, large SBOM":        {largeSquashfs("usr/share/spdx/talos.spdx.json", 4<<30), "a file of 4294967296 bytes"},
		"squashfs, large plugin":      {largeSquashfs("opt/cni/bin/bridge", 4<<30), "a file of 4294967296 bytes"},
		"squashfs, plugin of zeros":   {largeSquashfs("opt/cni/bin/bridge", 120<<20), "found: "},
		"squashfs, SBOM of zeros":     {largeSquashfs("usr/share/spdx/talos.spdx.json", 30<<20), "error"},
		"squashfs, large os-release":  {largeSquashfs("etc/os-release", 1<<30), "etc/os-release"},
		"squashfs, many SBOMs":        {manyFiles(20_000), "a directory of"},

		"PE, strings of 200 MB":  {func(t *testing.T) string { return sparse(t, 200*mebibyte, hugeStrings(program(t, "windows"))) }, "error"},
		"PE, 65535 sections":     {part(func() []byte { return patchPE(program(t, "windows"), 2, 0xff, 0xff) }), "65535 sections"},
		"PE, header at the end":  {part(func() []byte { return append([]byte("MZ"), bytes.Repeat([]byte{0xff}, 200)...) }), "reading PE"},
		"PE, nothing in it":      {part(func() []byte { return program(t, "windows") }), "no .initrd section"},
		"200 MB of a bad layer":  {func(t *testing.T) string { return badLayout(t, "layer") }, "it was altered"},
		"200 MB of index":        {func(t *testing.T) string { return badLayout(t, "index.json") }, "more than a manifest can have"},
		"200 MB of manifest":     {func(t *testing.T) string { return badLayout(t, "manifest") }, "more than a manifest can have"},
		"200 MB of config":       {func(t *testing.T) string { return badLayout(t, "config") }, "more than a manifest can have"},
		"an index that loops":    {loopingLayout, "nested too deeply"},
		"a layer, gzip bomb":     {bombLayout(types.OCILayer), "reading layer"},
		"a layer, zstd bomb":     {bombLayout(types.OCILayerZStd), "reading layer"},
		"a layer, large headers": {headerLayout, "reading layer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if out := resolveInChild(t, test.source(t), nil); !strings.Contains(out, test.want) {
				t.Errorf("want %q", test.want)
			}
		})
	}
}

func TestHostileStdin(t *testing.T) {
	t.Parallel()

	endless := io.LimitReader(repeat("a: [1, 2, 3]\n"), 200*mebibyte)
	// The child closes its end early.
	if out := resolveInChild(t, "-", endless); !strings.Contains(out, "reading standard input: more than") {
		t.Error(out)
	}
}

type repeat string

func (r repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], r)
	}

	return n, nil
}

func part(content func() []byte) func(*testing.T) string {
	return func(t *testing.T) string { return save(t, "input", content()) }
}

func deepLines(depth int) []byte {
	var out bytes.Buffer
	for i := range depth {
		out.WriteString(strings.Repeat(" ", i) + "a:\n")
	}

	return out.Bytes()
}

// xzDictionary is the start of an xz stream whose block asks for a dictionary; 40 stands for 4 GiB.
func xzDictionary(size byte) []byte {
	// Stream header for CRC32 checks; then a block header with one filter, LZMA2.
	header := []byte{0x02, 0x00, 0x21, 0x01, size, 0x00, 0x00, 0x00}
	out := []byte("\xfd7zXZ\x00\x00\x01\x69\x22\xde\x36")

	return append(append(append(out, header...), crc32le(header)...), make([]byte, 64)...)
}

// largeSquashfs is a real image with one file of zeros, which compress to nothing.
func largeSquashfs(name string, size int64) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()

		root := t.TempDir()
		put(t, root, "etc/os-release", []byte("ID=talos\nVERSION_ID=v1.10.0\n"))
		put(t, root, name, nil)

		if err := os.Truncate(filepath.Join(root, name), size); err != nil {
			t.Fatal(err)
		}

		return squash(t, root)
	}
}

func manyFiles(count int) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()

		root := t.TempDir()
		for i := range count {
			put(t, root, fmt.Sprintf("usr/share/spdx/%0200d.json", i), []byte(`{"spdxVersion":"SPDX-2.3"}`))
		}

		return squash(t, root)
	}
}

func squash(t *testing.T, root string) string {
	t.Helper()

	image := filepath.Join(t.TempDir(), "input")
	run(t, "", nil, "mksquashfs", root, image, "-all-root", "-noappend", "-quiet", "-no-progress", "-comp", "gzip", "-no-sparse")

	return image
}

// coffAt is where the COFF header of a PE program starts.
func coffAt(program []byte) int { return int(binary.LittleEndian.Uint32(program[0x3c:])) + 4 }

func patchPE(program []byte, offset int, with ...byte) []byte {
	out := bytes.Clone(program)
	copy(out[coffAt(out)+offset:], with)

	return out
}

// hugeStrings points a PE program's symbol table behind its end and says that 190 MB of names follow.
func hugeStrings(program []byte) []byte {
	out := bytes.Clone(program)
	binary.LittleEndian.PutUint32(out[coffAt(out)+8:], uint32(len(out)))
	binary.LittleEndian.PutUint32(out[coffAt(out)+12:], 0)

	return binary.LittleEndian.AppendUint32(out, 190*mebibyte)
}

// badLayout is a layout in which one file has 200 MB.
func badLayout(t *testing.T, what string) string {
	t.Helper()

	img := image(t, "amd64", types.OCILayer, file{"usr/install/amd64/x", []byte("x")})
	dir := writeLayout(t, img)

	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}

	blob := func(digest v1.Hash, err error) string {
		if err != nil {
			t.Fatal(err)
		}

		return filepath.Join(dir, "blobs/sha256", digest.Hex)
	}

	names := map[string]string{
		"index.json": filepath.Join(dir, "index.json"), "manifest": blob(img.Digest()), "config": blob(img.ConfigName()), "layer": blob(layers[0].Digest()),
	}

	if err := os.Truncate(names[what], 200*mebibyte); err != nil {
		t.Fatal(err)
	}

	return dir
}

// loopingLayout is a layout whose index lists itself.
func loopingLayout(t *testing.T) string {
	t.Helper()

	dir := writeLayout(t, image(t, "amd64", types.OCILayer))
	put(t, dir, "index.json", []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"sha256:`+strings.Repeat("0", 64)+`"}]}`))

	if err := os.Symlink("../../index.json", filepath.Join(dir, "blobs/sha256", strings.Repeat("0", 64))); err != nil {
		t.Fatal(err)
	}

	return dir
}

// bombLayout has a layer that unpacks to a file of 5 GiB.
func bombLayout(mediaType types.MediaType) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()

		var header bytes.Buffer
		if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "usr/install/amd64/initramfs.xz", Size: 5 << 30, Format: tar.FormatGNU}); err != nil {
			t.Fatal(err)
		}

		var compressed []byte
		if mediaType == types.OCILayerZStd {
			compressed = append(raw(append(header.Bytes(), "070701"...)), rle(0x58, 5<<30)...)
		} else {
			zeros := pack(t, mediaType, make([]byte, 100*mebibyte))
			compressed = append(pack(t, mediaType, append(header.Bytes(), "070701"...)), bytes.Repeat(zeros, 52)...)
		}

		return writeLayout(t, imageOfLayers(t, "amd64", static.NewLayer(compressed, mediaType)))
	}
}

// headerLayout has a layer with a PAX header of 200 MB.
func headerLayout(t *testing.T) string {
	t.Helper()

	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: 200 * mebibyte}); err != nil {
		t.Fatal(err)
	}

	data := header.Bytes()
	data[156] = tar.TypeXHeader

	// The sum over the header, with the type changed.
	copy(data[148:156], "        ")

	sum := 0
	for _, b := range data[:512] {
		sum += int(b)
	}

	copy(data[148:156], fmt.Sprintf("%06o\x00 ", sum))

	return writeLayout(t, imageOfLayers(t, "amd64", static.NewLayer(append(raw(data), rle(0x58, 200*mebibyte)...), types.OCILayerZStd)))
}

func crc32le(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(data))
}
