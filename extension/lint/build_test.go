package lint

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// item is one entry of an archive to be.
type item struct {
	header tar.Header
	body   string
}

// archive is an extension that tests break in one way.
type archive []item

const goodManifest = `version: v1alpha1
metadata:
  name: tool
  version: v1.2.3
  author: somebody
  description: a tool
  compatibility:
    talos:
      version: ">= v1.13.0"
`

const goodSBOM = `{
  "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
  "name": "tool", "documentNamespace": "https://example.com/tool",
  "creationInfo": {"created": "2026-01-01T00:00:00Z", "creators": ["Tool: test"]},
  "packages": [{"name": "NAME", "SPDXID": "SPDXRef-tool", "versionInfo": "1.2.3", "downloadLocation": "NOASSERTION"}],
  "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-tool"}]
}`

func sbomOf(name string) string { return strings.Replace(goodSBOM, "NAME", name, 1) }

// good is an extension to which no rule objects.
func good(t testing.TB, arch string) archive {
	t.Helper()

	a := archive{{header: tar.Header{Name: "manifest.yaml", Typeflag: tar.TypeReg, Mode: 0o644}, body: goodManifest}}
	a = a.file(t, "/usr/local/bin/tool", 0o755, elfFile(t, program{arch: arch}))

	return a.file(t, "/usr/local/share/spdx/tool.spdx.json", 0o644, sbomOf("tool"))
}

// file adds a file and the directories above it that are missing, labelled as Talos labels them.
func (a archive) file(t testing.TB, node string, mode int64, body string) archive {
	t.Helper()

	return a.dirs(t, path.Dir(node)).entry(t, tar.Header{Name: "rootfs" + node, Typeflag: tar.TypeReg, Mode: mode}, body)
}

func (a archive) link(t testing.TB, node, target string) archive {
	t.Helper()

	return a.dirs(t, path.Dir(node)).entry(t, tar.Header{Name: "rootfs" + node, Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: target}, "")
}

// dirs adds a directory and those above it.
func (a archive) dirs(t testing.TB, node string) archive {
	t.Helper()

	if node != "/" {
		a = a.dirs(t, path.Dir(node))
	}

	name := strings.TrimSuffix("rootfs"+node, "/") + "/"
	if slices.ContainsFunc(a, func(i item) bool { return i.header.Name == name }) {
		return a
	}

	return a.entry(t, tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, "")
}

// entry adds an entry, labelled as Talos labels it.
func (a archive) entry(t testing.TB, h tar.Header, body string) archive {
	t.Helper()

	f, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}

	if node, ok := nodePath(cleanName(h.Name)); ok && h.PAXRecords == nil && h.Typeflag != tar.TypeXGlobalHeader {
		h.PAXRecords = map[string]string{selinuxRecord: "system_u:object_r:" + f.labelOf(node) + ":s0"}
	}

	return append(slices.Clone(a), item{h, body})
}

// with returns a copy in which change was applied to the named entry.
func (a archive) with(t testing.TB, name string, change func(*item)) archive {
	t.Helper()

	changed := slices.Clone(a)
	i := a.index(t, name)
	change(&changed[i])

	return changed
}

func (a archive) without(t testing.TB, name string) archive {
	t.Helper()

	i := a.index(t, name)

	return slices.Delete(slices.Clone(a), i, i+1)
}

func (a archive) index(t testing.TB, name string) int {
	t.Helper()

	i := slices.IndexFunc(a, func(i item) bool { return i.header.Name == name })
	if i < 0 {
		t.Fatalf("the archive has no %s", name)
	}

	return i
}

// unlabelled returns a copy without SELinux labels.
func (a archive) unlabelled() archive {
	plain := slices.Clone(a)
	for i := range plain {
		plain[i].header.PAXRecords = nil
	}

	return plain
}

func (a archive) bytes(t testing.TB) []byte {
	t.Helper()

	var out bytes.Buffer

	w := tar.NewWriter(&out)

	for _, i := range a {
		h := i.header
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(i.body))
		}

		h.Format = tar.FormatPAX

		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}

		if h.Size > 0 {
			if _, err := w.Write([]byte(i.body)); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// tar writes the archive and returns its name.
func (a archive) tar(t testing.TB) string {
	t.Helper()

	return writeFile(t, "extension.tar", a.bytes(t))
}

func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()

	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}

	return name
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()

	var out bytes.Buffer

	z := gzip.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}

	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// imageOf packs archives into the layers of an image, bottom first.
func imageOf(t testing.TB, arch string, archives ...archive) v1.Image {
	t.Helper()

	var adds []mutate.Addendum
	for _, a := range archives {
		adds = append(adds, mutate.Addendum{Layer: static.NewLayer(a.bytes(t), types.OCIUncompressedLayer)})
	}

	return imageFrom(t, arch, adds)
}

func imageFrom(t testing.TB, arch string, adds []mutate.Addendum) v1.Image {
	t.Helper()

	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	img, err := mutate.Append(img, adds...)
	if err != nil {
		t.Fatal(err)
	}

	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch

	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}

	return img
}

// listed is an image and what the index says of it.
type listed struct {
	image    v1.Image
	platform *v1.Platform
}

func on(arch string) *v1.Platform { return &v1.Platform{OS: "linux", Architecture: arch} }

func indexOf(images ...listed) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)

	for _, l := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: l.image, Descriptor: v1.Descriptor{Platform: l.platform}})
	}

	return index
}

// layoutOf writes an OCI layout and returns its directory.
func layoutOf(t testing.TB, index v1.ImageIndex) string {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}

	return dir
}

// goodLayout is a layout to which no rule objects.
func goodLayout(t testing.TB) v1.ImageIndex {
	t.Helper()

	return indexOf(
		listed{imageOf(t, "amd64", good(t, "amd64")), on("amd64")},
		listed{imageOf(t, "arm64", good(t, "arm64")), on("arm64")},
	)
}

var machinesForTest = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// elfFile makes the smallest ELF file with the properties.
func elfFile(t testing.TB, p program) string {
	t.Helper()

	machine, ok := machinesForTest[p.arch]
	if !ok {
		t.Fatalf("no machine for %q", p.arch)
	}

	const headerSize, segmentSize = 64, 56

	var out bytes.Buffer

	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1,
		Entry: 0x400000, Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize, Phnum: 1,
	}
	copy(h.Ident[:], "\x7fELF")
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1

	segments := []elf.Prog64{{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: headerSize, Memsz: headerSize}}

	if p.interpreter != "" {
		h.Phnum = 2
		segments = append(segments, elf.Prog64{
			Type: uint32(elf.PT_INTERP), Off: headerSize + 2*segmentSize,
			Filesz: uint64(len(p.interpreter) + 1), Memsz: uint64(len(p.interpreter) + 1),
		})
	}

	if p.damaged {
		segments[0].Filesz = 1 << 20
	}

	if !p.executable && p.signed {
		h.Type = uint16(elf.ET_REL)
	}

	for _, part := range []any{h, segments} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}

	fmt.Fprintf(&out, "%s\x00", p.interpreter)

	if p.signed {
		out.Write(signatureMark)
	}

	return out.String()
}

// module is a kernel module.
func module(t testing.TB, arch string, signed bool) string {
	t.Helper()

	text := elfFile(t, program{arch: arch, signed: true})
	if !signed {
		text = strings.TrimSuffix(text, string(signatureMark)) + "unsigned"
	}

	return text
}
