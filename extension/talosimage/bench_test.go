package talosimage_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// noise does not compress, like the kernels, drivers and root file systems in real images.
func noise(size int) []byte {
	source := rand.NewChaCha8([32]byte{})
	data := make([]byte, size)
	_, _ = source.Read(data)

	return data
}

// Layouts of 300 MB, as imager and installer images have them: the SBOM last in its layer, and the root
// file system at the bottom of initramfs and UKI.
func BenchmarkLayout(b *testing.B) {
	const size = 300 << 20

	squash := rootfs(b, talos{release: "v1.13.6", sbom: "v1.9.1"}, "zstd")
	initramfs := func(with string) []byte {
		return concat(microcode(b), compress(b, with, archive(b, "lib/firmware", noise(size-len(squash)), "rootfs.sqsh", squash)))
	}

	for name, files := range map[string]func() []file{
		"SBOM": func() []file {
			return []file{{"usr/bin/imager", noise(size)}, {"usr/install/amd64/talos.spdx.json", sbom(b, "v1.13.6", "v1.9.1")}}
		},
		"initramfs":     func() []file { return []file{{"usr/install/amd64/initramfs.xz", initramfs("zstd, no checksum")}} },
		"initramfs, xz": func() []file { return []file{{"usr/install/amd64/initramfs.xz", initramfs("xz, quick")}} },
		"UKI": func() []file {
			return []file{{"usr/install/amd64/vmlinuz.efi", uki(b, initramfs("zstd, no checksum"))}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir := writeLayout(b, image(b, "amd64", types.OCILayer, files()...))

			for b.Loop() {
				if all := resolve(b, dir); all[0].Plugins != "v1.9.1" {
					b.Fatalf("%+v", all)
				}
			}
		})
	}
}
