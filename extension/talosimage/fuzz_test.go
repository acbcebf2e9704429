package talosimage_test

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/extension/release"
	"github.com/cnibake/cnibake/extension/talosimage"
)

func FuzzInitramfs(f *testing.F) {
	small := archive(f, "init", []byte("x"), "rootfs.sqsh", []byte("hsqs"))

	for _, with := range compressions {
		f.Add(concat(small, compress(f, with, small)))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		err := talosimage.WalkInitramfs(t.Context(), bytes.NewReader(data), func(_ string, size int64, content io.Reader) error {
			n, err := io.Copy(io.Discard, content)
			if err == nil && n > size {
				t.Errorf("%d bytes of %d", n, size)
			}

			return err
		})
		// Cutting off the end must not go unnoticed, unless the end is padding.
		if trimmed := bytes.TrimRight(data, "\x00"); err == nil && len(trimmed) > 0 && talosimage.WalkInitramfs(t.Context(), bytes.NewReader(trimmed[:1]), nil) == nil {
			t.Error("one byte is an initramfs")
		}
	})
}

func FuzzSquashfs(f *testing.F) {
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		root := f.TempDir()
		put(f, root, "etc/os-release", []byte("ID=talos\nVERSION_ID=v1.13.6\n"))
		put(f, root, "usr/share/spdx/talos.spdx.json", sbom(f, "v1.13.6", "v1.9.1"))
		put(f, root, "opt/cni/bin/bridge", bytes.Repeat([]byte("not a program"), 1000))

		image := filepath.Join(f.TempDir(), "rootfs.sqsh")
		run(f, "", nil, "mksquashfs", root, image, "-all-root", "-noappend", "-quiet", "-no-progress", "-comp", compression, "-b", "4096")
		f.Add(read(f, image))
	}

	temp := f.TempDir()

	f.Fuzz(func(t *testing.T, data []byte) {
		shipped, err := talosimage.ReadRootfs("x", bytes.NewReader(data), temp)
		if err != nil {
			return
		}

		for _, version := range []string{shipped.Release, shipped.Plugins} {
			if version != "" && !release.IsVersion(version) {
				t.Errorf("%+v", shipped)
			}
		}
	})
}

func FuzzUKI(f *testing.F) {
	// The real one is too large to be changed in many ways: its headers are what matters.
	real := uki(f, []byte("initrd"))
	f.Add(real[:4096])
	f.Add(append(bytes.Clone(real[:2048]), ".initrd\x00"...))

	f.Fuzz(func(t *testing.T, data []byte) {
		initrds, err := talosimage.UKIInitrds(bytes.NewReader(data))
		if err != nil {
			return
		}

		for _, initrd := range initrds {
			if n, _ := io.Copy(io.Discard, initrd); n > int64(len(data)) {
				t.Errorf("%d bytes out of %d", n, len(data))
			}
		}
	})
}
