package lint

import (
	"archive/tar"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rulesOf returns the IDs of the rules that have a finding, sorted.
func rulesOf(report *Report) []string {
	rules := []string{}
	for _, f := range report.Findings {
		rules = append(rules, f.Rule)
	}

	slices.Sort(rules)

	return slices.Compact(rules)
}

func lintFile(t testing.TB, artifact string, o Options) *Report {
	t.Helper()

	report, err := Lint(t.Context(), artifact, o)
	if err != nil {
		t.Fatal(err)
	}

	return report
}

func TestGoodExtensions(t *testing.T) {
	t.Parallel()

	for name, artifact := range map[string]string{
		"tar":    good(t, "amd64").tar(t),
		"layout": layoutOf(t, goodLayout(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			report := lintFile(t, artifact, Options{})
			if diff := cmp.Diff([]Finding{}, report.Findings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func renamed(name string) func(*item) { return func(i *item) { i.header.Name = name } }
func moded(mode int64) func(*item)    { return func(i *item) { i.header.Mode = mode } }

func replaced(old, text string) func(*item) {
	return func(i *item) { i.body = strings.Replace(i.body, old, text, 1) }
}

const (
	tool     = "rootfs/usr/local/bin/tool"
	kernel   = "6.18.44-talos"
	partDir  = "/etc/cri/conf.d/"
	plugin   = `[plugins."io.containerd.cri.v1.runtime".cni]` + "\n"
	modules  = "/usr/lib/modules/"
	services = "/usr/local/etc/containers/"
)

// broken has, for every rule, an artifact that breaks it and no other rule.
func broken(t *testing.T) map[string]string {
	t.Helper()

	a := good(t, "amd64")
	empty := tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}
	named := func(name string) tar.Header { h := empty; h.Name = name; return h }

	service := func(name, spec string) archive {
		return a.file(t, "/usr/local/lib/containers/agent/agent", 0o755, elfFile(t, program{arch: "amd64"})).file(t, services+name, 0o644, spec)
	}

	const goodService = "name: agent\ncontainer:\n  entrypoint: ./agent\nrestart: always\n"

	artifacts := map[string]archive{
		"root-unexpected":      a.entry(t, named("README.md"), "hello"),
		"manifest-missing":     a.without(t, "manifest.yaml"),
		"manifest-not-file":    a.with(t, "manifest.yaml", func(i *item) { i.header.Typeflag, i.header.Linkname, i.body = tar.TypeSymlink, "rootfs/x", "" }),
		"rootfs-missing":       a[:1],
		"rootfs-not-directory": a[:1].entry(t, tar.Header{Name: "rootfs", Typeflag: tar.TypeReg, Mode: 0o644}, "x"),
		"rootfs-empty":         a[:1].dirs(t, "/usr/local/share"),
		"parent-missing":       a.without(t, "rootfs/usr/local/bin/"),
		"parent-late":          append(a.without(t, "rootfs/usr/local/bin/"), a[a.index(t, "rootfs/usr/local/bin/")]),
		"dir-mode":             a.with(t, "rootfs/usr/", moded(0o700)),
		"dir-mode-private":     a.with(t, "rootfs/usr/local/bin/", moded(0o750)),
		"dir-special-bits":     a.with(t, "rootfs/usr/local/bin/", moded(0o2755)),

		"entry-slash":         append(archive{{header: tar.Header{Name: "/", Typeflag: tar.TypeDir, Mode: 0o755}}}, a...),
		"entry-name-empty":    append(archive{{header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}}}, a...),
		"entry-root":          append(archive{{header: tar.Header{Name: ".", Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: "x"}}}, a...),
		"entry-unreadable":    a.with(t, "rootfs/usr/local/share/spdx/tool.spdx.json", moded(0o044)),
		"program-empty":       a.file(t, "/usr/local/bin/empty", 0o755, ""),
		"selinux-too-many":    manyFiles(t, a),
		"entry-dotdot":        a.with(t, tool, renamed("rootfs/usr/../usr/local/bin/tool")),
		"entry-absolute":      a.with(t, tool, renamed("/"+tool)),
		"entry-name":          a.with(t, tool, renamed("rootfs/usr/local/bin/a\\tool")),
		"entry-name-long":     a.with(t, tool, renamed("rootfs/usr/local/bin/"+strings.Repeat("x", 256))),
		"entry-name-space":    a.with(t, tool, renamed("rootfs/usr/local/bin/a tool")),
		"entry-duplicate-dir": append(slices.Clone(a), a[a.index(t, "rootfs/usr/")]),
		"entry-duplicate":     append(slices.Clone(a), a[a.index(t, tool)]),
		"entry-hardlink":      a.entry(t, tar.Header{Name: "rootfs/usr/local/bin/link", Typeflag: tar.TypeLink, Linkname: tool, Mode: 0o755}, ""),
		"entry-special":       a.entry(t, tar.Header{Name: "rootfs/usr/local/bin/fifo", Typeflag: tar.TypeFifo, Mode: 0o644}, ""),
		"entry-global-header": append(archive{{header: tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "x"}}}}, a...),
		"entry-whiteout":      a.entry(t, named("rootfs/usr/local/bin/.wh.old"), ""),
		"entry-below-file":    a.entry(t, named(tool+"/x"), "x"),
		"entry-below-symlink": a.link(t, "/usr/local/sbin", "bin").entry(t, named("rootfs/usr/local/sbin/x"), "x"),
		"entry-setuid":        a.with(t, tool, moded(0o4755)),
		"world-writable":      a.with(t, tool, moded(0o757)),
		"group-writable":      a.with(t, tool, moded(0o775)),
		"entry-owner":         a.with(t, tool, func(i *item) { i.header.Uid = 1000 }),
		"entry-attributes":    a.entry(t, tar.Header{Name: "rootfs/usr/local/bin/x", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x", selinuxRecord: "system_u:object_r:usr_t:s0"}}, "x"),
		"symlink-escape":      a.link(t, "/usr/local/bin/up", "../../../../../../../etc/passwd"),
		"symlink-empty":       a.entry(t, tar.Header{Name: "rootfs/usr/local/bin/nothing", Typeflag: tar.TypeSymlink, Mode: 0o777}, ""),

		"elf-mixed":              a.file(t, "/usr/local/bin/other", 0o755, elfFile(t, program{arch: "arm64"})),
		"elf-damaged":            a.file(t, "/usr/local/bin/half", 0o755, elfFile(t, program{arch: "amd64", damaged: true})),
		"elf-loader-missing":     a.file(t, "/usr/local/bin/dynamic", 0o755, elfFile(t, program{arch: "amd64", interpreter: "/lib64/ld-linux-x86-64.so.2"})),
		"program-not-executable": a.with(t, tool, moded(0o644)),

		"manifest-invalid":        a.with(t, "manifest.yaml", replaced("v1alpha1", "v2")),
		"manifest-unknown-key":    a.with(t, "manifest.yaml", replaced("author", "authors: x\n  author")),
		"manifest-name":           a.with(t, "manifest.yaml", replaced("name: tool", "name: a tool")),
		"manifest-name-style":     a.with(t, "manifest.yaml", replaced("name: tool", "name: a_tool")),
		"manifest-version":        a.with(t, "manifest.yaml", replaced("v1.2.3", "v1.2.3+build")),
		"manifest-version-format": a.with(t, "manifest.yaml", replaced("v1.2.3", "latest")),
		"manifest-undescribed":    a.with(t, "manifest.yaml", replaced("author: somebody\n  ", "")),
		"compatibility-missing":   a.with(t, "manifest.yaml", replaced(`">= v1.13.0"`, `""`)),
		"compatibility-syntax":    a.with(t, "manifest.yaml", replaced(">= v1.13.0", "~1.13")),
		"compatibility":           a.with(t, "manifest.yaml", replaced(">= v1.13.0", ">= v9.0.0")),

		"selinux-missing":   a.unlabelled(),
		"selinux-malformed": a.with(t, tool, func(i *item) { i.header.PAXRecords = map[string]string{selinuxRecord: "usr_t"} }),
		"selinux-wrong":     a.with(t, "rootfs/usr/", func(i *item) { i.header.PAXRecords = map[string]string{selinuxRecord: "system_u:object_r:etc_t:s0"} }),
		"selinux-unusual": a.with(t, tool, func(i *item) {
			i.header.PAXRecords = map[string]string{selinuxRecord: "system_u:object_r:bin_exec_t:s0"}
		}),
		"selinux-record": a.with(t, tool, func(i *item) {
			i.header.PAXRecords = map[string]string{"RHT.security.selinux": "system_u:object_r:usr_t:s0"}
		}),
		"selinux-imager-1.12":    a.with(t, "manifest.yaml", replaced(">= v1.13.0", ">= v1.12.0")),
		"sbom-missing":           a.without(t, "rootfs/usr/local/share/spdx/tool.spdx.json"),
		"sbom-unreadable":        a.with(t, "rootfs/usr/local/share/spdx/tool.spdx.json", func(i *item) { i.body = "{" }),
		"sbom-not-spdx":          a.with(t, "rootfs/usr/local/share/spdx/tool.spdx.json", replaced("SPDX-2.3", "SPDX-9")),
		"sbom-name-taken":        a.with(t, "rootfs/usr/local/share/spdx/tool.spdx.json", replaced(`"name": "tool", "SPDXID"`, `"name": "cni", "SPDXID"`)),
		"sbom-module-taken":      a.with(t, "rootfs/usr/local/share/spdx/tool.spdx.json", replaced(`"name": "tool", "SPDXID"`, `"name": "golang.org/x/sys", "SPDXID"`)),
		"part-invalid":           a.file(t, partDir+"10-tool.part", 0o644, "[plugins"),
		"part-not-read":          a.file(t, partDir+"10-tool.toml", 0o644, "x = 1"),
		"part-replaces-talos":    a.file(t, partDir+"00-base.part", 0o644, ""),
		"part-version":           a.file(t, partDir+"10-tool.part", 0o644, "version = 2"),
		"part-key-unknown":       a.file(t, partDir+"10-tool.part", 0o644, plugin+"bin_dyrs = []"),
		"part-key-too-new":       a.with(t, "manifest.yaml", replaced(">= v1.13.0", ">= v1.10.0 < v1.12.0")).file(t, partDir+"10-tool.part", 0o644, plugin+`bin_dirs = ["/usr/local/bin", "/opt/cni/bin"]`).pluginLabels(),
		"part-bin-dirs":          a.file(t, partDir+"10-tool.part", 0o644, plugin+`bin_dirs = ["/usr/local/bin"]`).pluginLabels(),
		"part-bin-dir-empty":     a.file(t, partDir+"10-tool.part", 0o644, plugin+`bin_dirs = ["/usr/local/cni", "/opt/cni/bin"]`),
		"service-invalid":        service("agent.yaml", strings.Replace(goodService, "always", "sometimes", 1)),
		"service-not-read":       service("agent.yml", goodService),
		"service-twice":          service("agent.yaml", goodService).file(t, services+"other.yaml", 0o644, goodService),
		"service-rootfs-missing": a.file(t, services+"agent.yaml", 0o644, goodService),

		"service-entrypoint-missing": service("agent.yaml", strings.Replace(goodService, "./agent", "./demon", 1)),

		"modules-kernel":  a.file(t, modules+"5.4.0/extra/x.ko", 0o644, module(t, "amd64", true)),
		"modules-range":   a.file(t, modules+kernel+"/extra/x.ko", 0o644, module(t, "amd64", true)),
		"module-unsigned": a.only(t, kernel).file(t, modules+kernel+"/extra/x.ko", 0o644, module(t, "amd64", false)),
		"modules-dep":     a.only(t, kernel).file(t, modules+kernel+"/modules.dep", 0o644, "x"),
		"firmware-link":   a.file(t, "/usr/lib/firmware/a.bin", 0o644, "x").link(t, "/usr/lib/firmware/b.bin", "a.bin"),

		"path-not-allowed":  a.file(t, "/usr/bin/tool", 0o755, "x"),
		"path-mounted-over": a.file(t, "/usr/local/x", 0o644, "x").file(t, "/run/x", 0o644, "x"),
	}

	// These two need a path that the list of allowed ones does not have, and say so first.
	for id, a := range map[string]archive{
		"elf-dynamic":           a.file(t, "/opt/cni/bin/x", 0o755, elfFile(t, program{arch: "amd64", interpreter: "/lib/ld.so"})),
		"plugin-not-executable": a.file(t, "/opt/cni/bin/x", 0o644, elfFile(t, program{arch: "amd64"})),
		"path-replaces-link":    a.file(t, "/lib/x", 0o644, "x"),
		"path-mounted-over":     artifacts["path-mounted-over"],
	} {
		artifacts[id] = a
	}

	paths := map[string]string{}
	for id, a := range artifacts {
		paths[id] = a.tar(t)
	}

	return withImages(t, paths, a)
}

// manyFiles adds more labelled files than fit on a command line.
func manyFiles(t *testing.T, a archive) archive {
	t.Helper()

	dir := "/usr/local/" + strings.Repeat("d", 200)
	for i := range 8000 {
		a = append(a, item{header: tar.Header{
			Name: "rootfs" + dir + "/" + strconv.Itoa(i), Typeflag: tar.TypeReg, Mode: 0o644,
			PAXRecords: map[string]string{selinuxRecord: "system_u:object_r:usr_t:s0"},
		}})
	}

	return slices.Concat(a[:len(a)-8000].dirs(t, dir), a[len(a)-8000:])
}

// pluginLabels gives what lies in /usr/local/bin the label of plugins.
func (a archive) pluginLabels() archive {
	labelled := slices.Clone(a)

	for i := range labelled {
		if strings.HasPrefix(labelled[i].header.Name, "rootfs/usr/local/bin/") {
			labelled[i].header.PAXRecords = map[string]string{selinuxRecord: "system_u:object_r:cni_plugin_t:s0"}
		}
	}

	return labelled
}

// only restricts the extension to the release with the kernel.
func (a archive) only(t *testing.T, kernel string) archive {
	t.Helper()

	f, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}

	i := slices.IndexFunc(f.releases, func(r release) bool { return r.kernel == kernel })

	return a.with(t, "manifest.yaml", replaced(">= v1.13.0", "= v"+f.releases[i].version.String()))
}

// withImages adds the artifacts of the rules about archives and images.
func withImages(t *testing.T, paths map[string]string, a archive) map[string]string {
	t.Helper()

	amd64, arm64 := imageOf(t, "amd64", good(t, "amd64")), imageOf(t, "arm64", good(t, "arm64"))
	layer := func(a archive, mediaType types.MediaType) []mutate.Addendum {
		return []mutate.Addendum{{Layer: static.NewLayer(a.bytes(t), mediaType)}}
	}

	paths["tar-damaged"] = writeFile(t, "cut.tar", good(t, "amd64").file(t, "/usr/local/big", 0o644, strings.Repeat("x", 8192)).bytes(t)[:len(a.bytes(t))+1024])
	paths["tar-compressed"] = writeFile(t, "extension.tar.gz", gzipped(t, a.bytes(t)))
	paths["tar-image-archive"] = archive{{header: tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Mode: 0o644}, body: "[]"}}.tar(t)

	indexes := map[string]v1.ImageIndex{
		"oci-no-image":         indexOf(),
		"oci-platform-missing": indexOf(listed{amd64, on("amd64")}, listed{arm64, on("arm64")}, listed{amd64, on("amd64")}),
		"oci-platform-other":   indexOf(listed{amd64, on("amd64")}, listed{arm64, on("arm64")}, listed{imageOf(t, "riscv64", riscv(t)), on("riscv64")}),
		"oci-platform-differs": indexOf(listed{amd64, on("amd64")}, listed{imageFrom(t, "amd64", layer(good(t, "arm64"), types.OCIUncompressedLayer)), on("arm64")}),
		"oci-platform-twice":   indexOf(listed{amd64, on("amd64")}, listed{arm64, on("arm64")}, listed{amd64, on("amd64")}),
		"oci-layers": indexOf(listed{amd64, on("amd64")}, listed{
			imageOf(t, "arm64", a[:1], good(t, "arm64")[1:]), on("arm64"),
		}),
		"oci-single-architecture": indexOf(listed{amd64, on("amd64")}),
		"oci-architectures-differ": indexOf(listed{amd64, on("amd64")}, listed{
			imageOf(t, "arm64", good(t, "arm64").file(t, "/usr/local/extra", 0o644, "x")), on("arm64"),
		}),
		"oci-layer-media-type": indexOf(listed{amd64, on("amd64")}, listed{imageFrom(t, "arm64", layer(good(t, "arm64"), types.OCILayer)), on("arm64")}),
		"oci-nested-index": mutate.AppendManifests(goodLayout(t), mutate.IndexAddendum{
			Add: indexOf(listed{amd64, on("amd64")}), Descriptor: v1.Descriptor{MediaType: types.OCIImageIndex},
		}),
		"oci-diff-id": indexOf(listed{amd64, on("amd64")}, listed{wrongDiffID(t, arm64), on("arm64")}),
		"elf-machine": indexOf(listed{amd64, on("amd64")}, listed{imageOf(t, "arm64", good(t, "amd64")), on("arm64")}),
	}

	for id, index := range indexes {
		paths[id] = layoutOf(t, index)
	}

	dropLastPlatform(t, paths["oci-platform-missing"])

	paths["oci-damaged"] = layoutOf(t, goodLayout(t))
	alterLargestBlob(t, paths["oci-damaged"])

	return paths
}

// dropLastPlatform makes the index silent about its last image; libraries would fill it in.
func dropLastPlatform(t *testing.T, dir string) {
	t.Helper()

	name := filepath.Join(dir, "index.json")

	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}

	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}

	index.Manifests[len(index.Manifests)-1].Platform = nil

	if data, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// riscv is an extension without programs, so that none is for another machine.
func riscv(t *testing.T) archive {
	t.Helper()

	return good(t, "amd64").with(t, tool, func(i *item) { i.body = "#!/bin/sh\n" })
}

func wrongDiffID(t *testing.T, img v1.Image) v1.Image {
	t.Helper()

	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64)

	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}

	return img
}

// alterLargestBlob changes a byte after the end of a layer's archive, so that the content stays good.
func alterLargestBlob(t *testing.T, dir string) {
	t.Helper()

	names, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}

	largest := slices.MaxFunc(names, func(a, b string) int { return int(fileSize(t, a) - fileSize(t, b)) })

	file, err := os.OpenFile(largest, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	if _, err := file.WriteAt([]byte{1}, fileSize(t, largest)-1); err != nil {
		t.Fatal(err)
	}
}

func fileSize(t *testing.T, name string) int64 {
	t.Helper()

	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}

	return info.Size()
}

// alongside lists what else is true of a broken artifact and cannot be avoided: a directory outside the
// list of allowed paths, for example, is what makes a plugin a plugin.
var alongside = map[string][]string{
	"elf-dynamic":           {"path-not-allowed"},
	"plugin-not-executable": {"path-not-allowed"},
	"path-replaces-link":    {"path-not-allowed"},
	"path-mounted-over":     {"path-not-allowed"},
	// Without a range the extension is for imagers of 1.12 too.
	"compatibility-missing": {"selinux-imager-1.12"},
}

func TestEachRule(t *testing.T) {
	t.Parallel()

	artifacts := broken(t)

	for _, family := range Families() {
		for _, rule := range family.Rules {
			t.Run(rule.ID, func(t *testing.T) {
				t.Parallel()

				artifact, ok := artifacts[rule.ID]
				if !ok {
					t.Fatalf("no artifact breaks %s", rule.ID)
				}

				want := append([]string{rule.ID}, alongside[rule.ID]...)
				slices.Sort(want)

				report := lintFile(t, artifact, Options{})
				if diff := cmp.Diff(want, rulesOf(report)); diff != "" {
					t.Errorf("%s: %s\n%+v", artifact, diff, report.Findings)
				}
			})
		}
	}
}
