package talosimage_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// talos says what a test's Talos carries.
type talos struct {
	// release is in os-release, sbom in the SBOM's package cni; empty leaves the file out.
	release, sbom string
	// plugins puts the real plugins of the default pin (v1.9.1) into opt/cni/bin.
	plugins bool
	// otherNames puts programs there that were not built from the plugins' module.
	otherNames bool
}

// run runs a tool of the machine, with its standard input and output.
func run(t testing.TB, dir string, stdin []byte, name string, args ...string) []byte {
	t.Helper()

	var stdout, stderr bytes.Buffer

	cmd := exec.CommandContext(t.Context(), buildertest.RequireTool(t, name), args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(stdin), &stdout, &stderr

	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}

	return stdout.Bytes()
}

func put(t testing.TB, root, name string, content []byte) {
	t.Helper()

	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(name, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()

	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// sbom is an SPDX document as Talos's own: many packages, of which one is cni and one Talos.
func sbom(t testing.TB, talosRelease, plugins string) []byte {
	t.Helper()

	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "talos",
		DocumentNamespace: "https://example.test/talos",
		CreationInfo:      &spdx.CreationInfo{Created: "1970-01-01T00:00:00Z", Creators: []common.Creator{{CreatorType: "Tool", Creator: "test"}}},
	}

	add := func(name, version string, cpes ...string) {
		p := &spdx.Package{
			PackageName: name, PackageVersion: version, PackageSPDXIdentifier: common.ElementID("Package-" + name),
			PackageDownloadLocation: "NOASSERTION",
		}
		for _, cpe := range cpes {
			p.PackageExternalReferences = append(p.PackageExternalReferences, &spdx.PackageExternalReference{
				Category: "SECURITY", RefType: "cpe23Type", Locator: "cpe:2.3:a:" + cpe + ":" + version + ":*:*:*:*:*:*:*",
			})
		}

		document.Packages = append(document.Packages, p)
	}

	add("flannel-cni", "v1.9.1-flannel1", "flannel-io:cni-plugin")
	add("github.com/containernetworking/cni", "v1.3.0")
	add("cni", plugins, "containernetworking:plugins", "linuxfoundation:cni_network_plugins")
	add("talos", talosRelease)

	var out bytes.Buffer
	if err := json.Write(document, &out, json.Indent("  ")); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// program is a small Go program that was not built from the plugins' module.
func program(t testing.TB, goos string) []byte {
	t.Helper()

	return once(t, "program for "+goos, func() []byte {
		dir := t.TempDir()
		put(t, dir, "main.go", []byte("package main\n\nfunc main() {}\n"))

		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", "program", "main.go")
		build.Dir = dir
		build.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")

		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building a program: %v\n%s", err, out)
		}

		return read(t, filepath.Join(dir, "program"))
	})
}

var made struct {
	sync.Mutex
	files map[string]func() []byte
}

// once makes a fixture that several tests use.
func once(t testing.TB, key string, make func() []byte) []byte {
	t.Helper()

	made.Lock()
	if made.files == nil {
		made.files = map[string]func() []byte{}
	}

	get, ok := made.files[key]
	if !ok {
		get = sync.OnceValue(make)
		made.files[key] = get
	}
	made.Unlock()

	data := get()
	if len(data) == 0 {
		t.Fatalf("making %s failed before", key)
	}

	return data
}

// rootfs makes a root file system the way Talos does, with the real mksquashfs.
func rootfs(t testing.TB, what talos, compression string) []byte {
	t.Helper()
	buildertest.RequireTool(t, "mksquashfs")

	return once(t, fmt.Sprintf("rootfs %+v %s", what, compression), func() []byte { return makeRootfs(t, what, compression) })
}

func makeRootfs(t testing.TB, what talos, compression string) []byte {
	t.Helper()

	root := t.TempDir()

	put(t, root, "usr/bin/init", bytes.Repeat([]byte("not the one that counts\n"), 10_000))
	put(t, root, "usr/local/share/spdx/cni.spdx.json", []byte("{}"))

	if what.release != "" {
		put(t, root, "etc/os-release", []byte("NAME=\"Talos\"\nID=talos\nVERSION_ID="+what.release+"\nPRETTY_NAME=\"Talos ("+what.release+")\"\n"))
	}

	if what.sbom != "" {
		put(t, root, "usr/share/spdx/kernel.spdx.json", []byte(`{"spdxVersion":"SPDX-2.3","packages":[]}`))
		put(t, root, "usr/share/spdx/talos-amd64.spdx.json", sbom(t, what.release, what.sbom))
	}

	put(t, root, "opt/cni/bin/flannel", program(t, "linux"))

	if what.otherNames {
		put(t, root, "opt/cni/bin/bridge", program(t, "linux"))

		// A second name for a file makes it an extended inode.
		if err := os.Link(filepath.Join(root, "opt/cni/bin/bridge"), filepath.Join(root, "opt/cni/bin/host-local")); err != nil {
			t.Fatal(err)
		}
	}

	if what.plugins {
		set := buildertest.Plugins(t, "amd64")
		for _, name := range []string{"bridge", "portmap"} {
			plugin, ok := set.Manifest.Lookup(name)
			if !ok {
				t.Fatalf("no plugin %s", name)
			}

			put(t, root, "opt/cni/bin/"+name, read(t, set.Files[plugin.File].Path))
		}
	}

	image := filepath.Join(t.TempDir(), "rootfs.sqsh")
	run(t, "", nil, "mksquashfs", root, image, "-all-root", "-noappend", "-quiet", "-no-progress", "-comp", compression)

	return read(t, image)
}

// archive makes a cpio archive with the real tool, of files given as name and content by turns.
func archive(t testing.TB, files ...any) []byte {
	t.Helper()

	dir := t.TempDir()

	var names []string

	for i := 0; i < len(files); i += 2 {
		name := files[i].(string)
		put(t, dir, name, files[i+1].([]byte))
		names = append(names, name)
	}

	return run(t, dir, []byte(strings.Join(names, "\n")+"\n"), "cpio", "--quiet", "-o", "-H", "newc")
}

// compress compresses with the real tools, and as Talos does.
func compress(t testing.TB, with string, data []byte) []byte {
	t.Helper()

	switch with {
	case "none":
		return data
	case "xz":
		return run(t, "", data, "xz", "-c", "-0", "-e", "--check=crc32")
	case "xz, quick":
		return run(t, "", data, "xz", "-c", "-0", "--check=crc32")
	case "xz, blocks":
		return run(t, "", data, "xz", "-c", "-0", "--check=sha256", "--block-size=100000", "-T2")
	case "xz, x86":
		return run(t, "", data, "xz", "-c", "--check=crc32", "--x86", "--lzma2=preset=1")
	case "zstd":
		return run(t, "", data, "zstd", "-q", "-c", "-18", "-T0")
	case "zstd, no checksum":
		return run(t, "", data, "zstd", "-q", "-c", "-1", "--no-check")
	case "zstd, stream":
		var out bytes.Buffer

		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}

		for chunk := range slices.Chunk(data, 70_000) {
			if _, err := z.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}

		if err := z.Close(); err != nil {
			t.Fatal(err)
		}

		return out.Bytes()
	case "gzip":
		return run(t, "", data, "gzip", "-c", "-n")
	default:
		t.Fatalf("compression %q", with)

		return nil
	}
}

var compressions = []string{"none", "gzip", "xz", "xz, blocks", "xz, x86", "zstd", "zstd, no checksum", "zstd, stream"}

// uki adds sections to a real PE program, as systemd's ukify does to its stub.
func uki(t testing.TB, initrd []byte) []byte {
	t.Helper()

	dir := t.TempDir()
	put(t, dir, "stub.efi", program(t, "windows"))
	put(t, dir, "initrd", initrd)
	put(t, dir, "cmdline", []byte("talos.platform=metal\x00"))

	run(t, dir, nil, "objcopy", "--add-section", ".cmdline=cmdline", "--set-section-flags", ".cmdline=data,readonly", "--change-section-vma", ".cmdline=0x1a0000000",
		"--add-section", ".initrd=initrd", "--set-section-flags", ".initrd=data,readonly", "--change-section-vma", ".initrd=0x1b0000000", "stub.efi", "uki.efi")

	return read(t, filepath.Join(dir, "uki.efi"))
}

// microcode is what stands in front of an initramfs for x86: an archive that is not compressed.
func microcode(t testing.TB) []byte {
	t.Helper()

	return archive(t, "kernel/x86/microcode/GenuineIntel.bin", bytes.Repeat([]byte{7}, 2048))
}

// extension is what the imager appends for system extensions.
func extension(t testing.TB) []byte {
	t.Helper()
	buildertest.RequireTool(t, "mksquashfs")
	buildertest.RequireTool(t, "cpio")

	return once(t, "extension", func() []byte {
		return archive(t, "extensions.yaml", []byte("layers:\n  - image: 0.sqsh\n"), "0.sqsh", rootfs(t, talos{release: "v1.0.0", sbom: "v0.1.0"}, "zstd"))
	})
}

type file struct {
	name    string
	content []byte
}

// image makes an image of one layer.
func image(t testing.TB, arch string, compression types.MediaType, files ...file) v1.Image {
	t.Helper()

	return imageOfLayers(t, arch, layer(t, compression, files...))
}

func layer(t testing.TB, mediaType types.MediaType, files ...file) v1.Layer {
	t.Helper()

	var out bytes.Buffer

	w := tar.NewWriter(&out)

	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}

		if _, err := w.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return static.NewLayer(pack(t, mediaType, out.Bytes()), mediaType)
}

func pack(t testing.TB, mediaType types.MediaType, data []byte) []byte {
	t.Helper()

	var out bytes.Buffer

	switch mediaType {
	case types.OCILayer:
		z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}

		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	case types.OCILayerZStd:
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}

		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		return data
	}

	return out.Bytes()
}

func imageOfLayers(t testing.TB, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()

	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	var adds []mutate.Addendum
	for _, l := range layers {
		mediaType, err := l.MediaType()
		if err != nil {
			t.Fatal(err)
		}

		adds = append(adds, mutate.Addendum{Layer: l, MediaType: mediaType})
	}

	img, err := mutate.Append(base, adds...)
	if err != nil {
		t.Fatal(err)
	}

	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.Architecture, config.OS = arch, "linux"

	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}

	return img
}

// writeLayout writes images into a layout, all listed in its index.
func writeLayout(t testing.TB, images ...v1.Image) string {
	t.Helper()

	dir := t.TempDir()

	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		t.Fatal(err)
	}

	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}

		if err := path.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: config.Architecture})); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// concat joins segments of an initramfs, each padded to four bytes as the imager does.
func concat(segments ...[]byte) []byte {
	var out []byte

	for _, s := range segments {
		out = append(out, s...)
		out = append(out, make([]byte, (4-len(out)%4)%4)...)
	}

	return out
}

// newc is one raw cpio header, for archives that no tool makes.
func newc(name string, mode uint32, size uint32) []byte {
	out := []byte("070701")
	for _, field := range []uint32{1, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, uint32(len(name) + 1), 0} {
		out = append(out, []byte(strings.ToUpper(hex8(field)))...)
	}

	out = append(out, name...)
	out = append(out, 0)

	return append(out, make([]byte, (4-len(out)%4)%4)...)
}

func hex8(v uint32) string {
	var b [4]byte

	binary.BigEndian.PutUint32(b[:], v)

	const digits = "0123456789abcdef"

	var out []byte
	for _, x := range b {
		out = append(out, digits[x>>4], digits[x&15])
	}

	return string(out)
}
