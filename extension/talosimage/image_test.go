package talosimage_test

import (
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension/release"
	"github.com/cnibake/cnibake/extension/talosimage"
)

// found is what a test wants of a source.
type found struct{ Kind, Writer, Release, Plugins string }

func resolve(t testing.TB, source string) []release.Shipped {
	t.Helper()

	all, err := talosimage.Resolve(t.Context(), source, talosimage.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}

	return all
}

func brief(all []release.Shipped) []found {
	var out []found
	for _, s := range all {
		out = append(out, found{s.Kind, s.Writer, s.Release, s.Plugins})
	}

	return out
}

func evidence(all []release.Shipped) string {
	var lines []string

	for _, s := range all {
		for _, e := range s.Evidence {
			lines = append(lines, e.String())
		}

		lines = append(lines, s.Notes...)
	}

	return strings.Join(lines, "\n")
}

func wants(t *testing.T, all []release.Shipped, want []found, says ...string) {
	t.Helper()

	if diff := cmp.Diff(want, brief(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, text := range says {
		if !strings.Contains(evidence(all), text) {
			t.Errorf("the evidence lacks %q:\n%s", text, evidence(all))
		}
	}
}

func save(t testing.TB, base string, content []byte) string {
	t.Helper()

	name := filepath.Join(t.TempDir(), base)
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}

	return name
}

// Imagers from 1.11 on carry the SBOM beside kernel and initramfs. It decides, and nothing else is read.
func TestImagerWithSBOM(t *testing.T) {
	t.Parallel()

	document := sbom(t, "v1.13.6", "v1.9.1")
	notRead := file{"usr/install/amd64/initramfs.xz", []byte("070701 but no archive at all")}

	for name, mediaType := range map[string]types.MediaType{"gzip": types.OCILayer, "zstd": types.OCILayerZStd, "none": types.OCIUncompressedLayer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := writeLayout(t,
				image(t, "amd64", mediaType, file{"usr/bin/imager", []byte("\x7fELF")}, notRead, file{"usr/install/amd64/talos.spdx.json", document}),
				image(t, "arm64", mediaType, file{"./usr/install/arm64/talos.spdx.json", document}),
			)

			wants(t, resolve(t, dir), []found{{"image with an SBOM", "talos", "v1.13.6", "v1.9.1"}},
				"plugins v1.9.1 (usr/install/amd64/talos.spdx.json: SPDX package cni)", "usr/install/arm64/talos.spdx.json")
		})
	}
}

func TestPlatformsThatDisagree(t *testing.T) {
	t.Parallel()

	dir := writeLayout(t,
		image(t, "amd64", types.OCILayer, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}),
		image(t, "arm64", types.OCILayer, file{"usr/install/arm64/talos.spdx.json", sbom(t, "v1.12.0", "v1.9.0")}),
	)

	wants(t, resolve(t, dir), []found{{"image with an SBOM", "talos", "v1.13.6", "v1.9.1"}, {"image with an SBOM", "talos", "v1.12.0", "v1.9.0"}})
}

func TestUpperLayerWins(t *testing.T) {
	t.Parallel()

	dir := writeLayout(t, imageOfLayers(t, "amd64",
		layer(t, types.OCILayer, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.12.0", "v1.9.0")}),
		layer(t, types.OCILayerZStd, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}),
		layer(t, types.OCILayer, file{"etc/motd", []byte("hello")}),
	))

	wants(t, resolve(t, dir), []found{{"image with an SBOM", "talos", "v1.13.6", "v1.9.1"}})
}

// The container image of Talos is its root file system.
func TestTalosContainerImage(t *testing.T) {
	t.Parallel()

	dir := writeLayout(t, image(t, "amd64", types.OCILayer, file{"usr/share/spdx/talos-container-amd64.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}))

	wants(t, resolve(t, dir), []found{{"image with an SBOM", "talos", "v1.13.6", "v1.9.1"}})
}

// Every compression of the initramfs, alone and in each arrangement that bootable images have.
func TestInstallerWithInitramfs(t *testing.T) {
	t.Parallel()

	base := archive(t, "init", []byte("\x7fELF init"), "rootfs.sqsh", rootfs(t, talos{release: "v1.13.6", sbom: "v1.9.1"}, "zstd"))
	kernel := file{"usr/install/amd64/vmlinuz", []byte("MZ but a kernel for all that")}

	for _, with := range compressions {
		t.Run(with, func(t *testing.T) {
			t.Parallel()

			packed, appended := compress(t, with, base), compress(t, with, extension(t))

			for name, initramfs := range map[string][]byte{
				"alone":                  packed,
				"padded":                 append(concat(packed), make([]byte, 4096)...),
				"behind uCode":           concat(microcode(t), packed),
				"extension behind":       concat(packed, appended),
				"extension, no padding":  append(append([]byte(nil), packed...), appended...),
				"all of it":              concat(microcode(t), packed, appended),
				"two archives in one":    compress(t, with, concat(microcode(t), base)),
				"other compressions too": concat(microcode(t), compress(t, "gzip", extension(t)), packed, compress(t, "xz", extension(t)), compress(t, "zstd", extension(t))),
			} {
				dir := writeLayout(t, image(t, "amd64", types.OCILayer, kernel, file{"usr/install/amd64/initramfs.xz", initramfs}))

				wants(t, resolve(t, dir), []found{{"image", "talos", "v1.13.6", "v1.9.1"}},
					"usr/install/amd64/initramfs.xz: rootfs.sqsh: usr/share/spdx/talos-amd64.spdx.json: SPDX package cni",
					"release v1.13.6 (usr/install/amd64/initramfs.xz: rootfs.sqsh: VERSION_ID in etc/os-release)")

				if t.Failed() {
					t.Fatal(name)
				}
			}
		})
	}
}

// Installers from 1.10 on have a unified kernel image.
func TestInstallerWithUKI(t *testing.T) {
	t.Parallel()

	base := archive(t, "init", []byte("\x7fELF init"), "rootfs.sqsh", rootfs(t, talos{release: "v1.13.6", sbom: "v1.9.1"}, "zstd"))

	for _, with := range []string{"xz", "zstd"} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()

			dir := writeLayout(t, image(t, "amd64", types.OCILayer,
				file{"usr/install/amd64/systemd-boot.efi", uki(t, nil)[:4096]},
				file{"usr/install/amd64/vmlinuz.efi", uki(t, concat(microcode(t), compress(t, with, base), compress(t, with, extension(t))))},
			))

			wants(t, resolve(t, dir), []found{{"image", "talos", "v1.13.6", "v1.9.1"}}, "usr/install/amd64/vmlinuz.efi: .initrd: rootfs.sqsh: usr/share/spdx")
		})
	}
}

// Below 1.11 there is no SBOM anywhere: then the plugins' own bytes speak.
func TestRootfsEvidence(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		what talos
		want found
		says []string
	}{
		"build info of the plugins": {
			talos{release: "v1.10.0", plugins: true}, found{"part of an image", "talos", "v1.10.0", "v1.9.1"},
			[]string{"opt/cni/bin/bridge", ", plugins v1.9.1", "opt/cni/bin/portmap", "sha256:"},
		},
		"build info against the SBOM": {
			talos{release: "v1.12.0", sbom: "v1.9.0", plugins: true}, found{"part of an image", "talos", "v1.12.0", "v1.9.1"},
			[]string{"the SBOM says that the plugins are v1.9.0, their own build info says v1.9.1: the bytes count"},
		},
		"plugins without a version": {
			talos{release: "v1.10.0", otherNames: true}, found{"part of an image", "talos", "v1.10.0", ""},
			[]string{"opt/cni/bin/bridge", "opt/cni/bin/host-local"},
		},
		"an SBOM without os-release": {
			talos{sbom: "v1.9.0", otherNames: true}, found{"part of an image", "talos", "", "v1.9.0"}, nil,
		},
	} {
		for _, compression := range []string{"gzip", "xz", "zstd"} {
			t.Run(name+", "+compression, func(t *testing.T) {
				t.Parallel()

				all := resolve(t, save(t, "anything", rootfs(t, test.what, compression)))
				wants(t, all, []found{test.want}, test.says...)

				if test.want.Release == "" && all[0].Why == "" {
					t.Error("no release and no reason")
				}
			})
		}
	}
}

// A release that the source itself tells, without a version, is looked up like any other.
func TestReleaseAloneIsLookedUp(t *testing.T) {
	t.Parallel()

	all := resolve(t, save(t, "rootfs.sqsh", rootfs(t, talos{release: "v1.10.8", otherNames: true}, "zstd")))

	c, err := release.Compare(release.Pinned{File: "x", Version: "v1.6.2", Markers: []release.Marker{{Writer: "talos", Release: "v1.10.8"}}}, all[0])
	if err != nil || c.Verdict != release.InStep {
		t.Errorf("%+v, %v", c, err)
	}
}

// Parts of an image that somebody downloaded: release assets of Talos.
func TestParts(t *testing.T) {
	t.Parallel()

	squash := rootfs(t, talos{release: "v1.13.6", sbom: "v1.9.1"}, "xz")
	initramfs := concat(microcode(t), compress(t, "zstd", archive(t, "rootfs.sqsh", squash)))
	want := []found{{"part of an image", "talos", "v1.13.6", "v1.9.1"}}

	wants(t, resolve(t, save(t, "a.txt", squash)), want)
	wants(t, resolve(t, save(t, "b.yaml", initramfs)), want)
	wants(t, resolve(t, save(t, "c.json", uki(t, initramfs))), want)
	wants(t, resolve(t, save(t, "d", sbom(t, "v1.13.6", "v1.9.1"))), []found{{"SPDX document", "talos", "v1.13.6", "v1.9.1"}})
}

// The real thing: an image in a registry, for several platforms, with a signature beside them.
func TestPull(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	host := strings.TrimPrefix(server.URL, "http://")
	reference := host + "/siderolabs/imager:v1.13.9"

	dir := writeLayout(t,
		image(t, "amd64", types.OCILayer, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}),
		image(t, "arm64", types.OCILayer, file{"usr/install/arm64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}),
	)

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}

	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}

	single := host + "/ours/nodes:today"
	if ref, err = name.ParseReference(single); err != nil {
		t.Fatal(err)
	}

	if err := remote.Write(ref, image(t, "amd64", types.OCILayerZStd, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.12.0", "v1.9.0")})); err != nil {
		t.Fatal(err)
	}

	// Offline, the tag is all there is.
	wants(t, resolve(t, reference), []found{{"image reference", "talos", "v1.13.9", ""}})

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	options := talosimage.Options{Pull: talosimage.Puller(client), TempDir: t.TempDir()}

	for source, want := range map[string]found{
		reference: {"image with an SBOM", "talos", "v1.13.6", "v1.9.1"},
		single:    {"image with an SBOM", "talos", "v1.12.0", "v1.9.0"},
		// By way of a machine configuration.
		save(t, "node.yaml", []byte("version: v1alpha1\nmachine: {install: {image: '"+single+"'}}\n")): {"image with an SBOM", "talos", "v1.12.0", "v1.9.0"},
	} {
		all, err := talosimage.Resolve(t.Context(), source, options)
		if err != nil {
			t.Fatal(err)
		}

		wants(t, all, []found{want})
	}

	if _, err := talosimage.Resolve(t.Context(), host+"/siderolabs/imager:v0.0.1", options); err == nil || !strings.Contains(err.Error(), "pulling "+host) {
		t.Errorf("got %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()

	t.Run("standard input", func(t *testing.T) {
		t.Parallel()

		all, err := talosimage.Resolve(t.Context(), "-", talosimage.Options{Stdin: strings.NewReader("v1.13.9\n")})
		if err != nil {
			t.Fatal(err)
		}

		wants(t, all, []found{{"version", "", "v1.13.9", ""}})
	})

	t.Run("refusals", func(t *testing.T) {
		t.Parallel()

		fifo := filepath.Join(t.TempDir(), "fifo")
		run(t, "", nil, "mkfifo", fifo)

		for source, want := range map[string]string{
			"nowhere.yaml":            "nowhere.yaml: no such file, and neither a version nor a known image reference",
			"dir/nowhere":             "no such file",
			t.TempDir():               "a directory, but not an OCI image layout",
			fifo:                      "neither a file nor a directory",
			"-":                       "reading standard input: there is none",
			"":                        "no such file",
			strings.Repeat("a", 5000): "no such file",
		} {
			if all, err := talosimage.Resolve(t.Context(), source, talosimage.Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, %v, want %q", source, brief(all), err, want)
			}
		}
	})

	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		dir := writeLayout(t, image(t, "amd64", types.OCILayer, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}))
		if _, err := talosimage.Resolve(ctx, dir, talosimage.Options{TempDir: t.TempDir()}); err == nil {
			t.Error("no error")
		}
	})
}

// Images that hold no evidence say what is missing rather than nothing.
func TestNoEvidence(t *testing.T) {
	t.Parallel()

	squash := rootfs(t, talos{}, "zstd")
	install := func(content []byte) v1.Image {
		return image(t, "amd64", types.OCILayer, file{"usr/install/amd64/initramfs.xz", content})
	}

	for name, test := range map[string]struct {
		image v1.Image
		want  string
	}{
		"any image":             {image(t, "amd64", types.OCILayer, file{"bin/sh", []byte("\x7fELF")}), "is it an imager or installer image?"},
		"only a kernel":         {image(t, "amd64", types.OCILayer, file{"usr/install/amd64/vmlinuz", uki(t, nil)[:2000]}), "is it an imager or installer image?"},
		"other JSON":            {image(t, "amd64", types.OCILayer, file{"usr/install/amd64/x.json", []byte(`{"a":1}`)}), "is it an imager or installer image?"},
		"another initramfs":     {install(compress(t, "zstd", microcode(t))), "no rootfs.sqsh in this initramfs"},
		"an empty root":         {install(archive(t, "rootfs.sqsh", squash)), "neither a Talos release in etc/os-release, nor an SBOM"},
		"an initramfs cut":      {install(compress(t, "xz", archive(t, "rootfs.sqsh", squash))[:5000]), "reading initramfs: segment 1"},
		"an archive cut":        {install(archive(t, "rootfs.sqsh", squash)[:5000]), "unexpected EOF"},
		"an archive, no end":    {install(newc("rootfs.sqsh", 0o100644, 0)), "unexpected EOF"},
		"not squashfs":          {install(archive(t, "rootfs.sqsh", []byte("hsqs and nothing else, which is no squashfs at all, although it is longer than a superblock is, by far"))), "reading squashfs"},
		"UKI without initramfs": {image(t, "amd64", types.OCILayer, file{"usr/install/amd64/vmlinuz.efi", uki(t, []byte("nothing known"))}), "neither cpio nor gzip, xz or zstd"},
		"lz4":                   {install([]byte("\x02\x21\x4c\x18 legacy lz4")), "is it an imager or installer image?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			all, err := talosimage.Resolve(t.Context(), writeLayout(t, test.image), talosimage.Options{TempDir: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, %v, want %q", brief(all), err, test.want)
			}

			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestAlteredLayer(t *testing.T) {
	t.Parallel()

	img := image(t, "amd64", types.OCIUncompressedLayer, file{"usr/install/amd64/talos.spdx.json", sbom(t, "v1.13.6", "v1.9.1")}, file{"z", []byte("the end")})
	dir := writeLayout(t, img)

	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}

	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}

	// Behind everything that had to be read.
	blob := filepath.Join(dir, "blobs/sha256", digest.Hex)
	data := read(t, blob)
	data[len(data)-1]++

	if err := os.WriteFile(blob, data, 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := talosimage.Resolve(t.Context(), dir, talosimage.Options{}); err == nil || !strings.Contains(err.Error(), "it was altered") {
		t.Errorf("got %v", err)
	}
}
