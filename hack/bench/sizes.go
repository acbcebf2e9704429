package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// measureSizes packs the same 14 plugins three ways, for amd64.
func (w *workshop) measureSizes() error {
	progress("measuring sizes")

	for packaging, s := range map[string]*shape{"multicall": &w.merged, "separate": &w.separate} {
		out, root := w.path("size-"+packaging), w.path("root-"+packaging)

		if err := w.run("", w.caches(), w.cnibake, "build", "-q", "--arch", "amd64", "--packaging", packaging, "--out", out, "talos"); err != nil {
			return err
		}

		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}

		if err := w.run(root, nil, "tar", "-xf", filepath.Join(out, "talos-amd64.tar")); err != nil {
			return err
		}

		var err error
		if s.pull, err = layerSize(filepath.Join(out, "build.json")); err != nil {
			return err
		}

		if err := w.weigh(s, filepath.Join(root, "rootfs")); err != nil {
			return err
		}
	}

	info, err := os.Stat(w.path("today.tar.gz"))
	if err != nil {
		return err
	}

	w.today.pull = info.Size()

	return w.weigh(&w.today, w.path("rootfs"))
}

func layerSize(report string) (int64, error) {
	data, err := os.ReadFile(report)
	if err != nil {
		return 0, err
	}

	var build struct {
		Profiles []struct {
			Artifacts []struct {
				Images []struct{ Layers []struct{ Size int64 } }
			}
		}
	}

	if err := json.Unmarshal(data, &build); err != nil {
		return 0, err
	}

	for _, artifact := range build.Profiles[0].Artifacts {
		for _, image := range artifact.Images {
			return image.Layers[0].Size, nil
		}
	}

	return 0, fmt.Errorf("%s lists no image", report)
}

// weigh measures a tree of files, and what the Talos imager makes of it: a squashfs, which it appends
// to the initramfs inside a compressed cpio archive.
func (w *workshop) weigh(s *shape, root string) error {
	s.dir = filepath.Join(root, "opt/cni/bin")

	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		s.unpacked += info.Size()

		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			s.disk += stat.Blocks * 512
		}

		return nil
	})
	if err != nil {
		return err
	}

	work, err := os.MkdirTemp(w.dir, "squashfs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	script := `
		mksquashfs "$1" 0.sqsh -all-root -noappend -no-progress -quiet -comp zstd -Xcompression-level 18
		printf 'layers:\n- image: 0.sqsh\n' > extensions.yaml
		printf '0.sqsh\nextensions.yaml\n' | cpio --quiet -o -H newc | zstd -q -18 > segment`
	if err := w.run(work, nil, "sh", "-ec", script, "sh", root); err != nil {
		return err
	}

	for name, size := range map[string]*int64{"0.sqsh": &s.squashfs, "segment": &s.initramfs} {
		info, err := os.Stat(filepath.Join(work, name))
		if err != nil {
			return err
		}

		*size = info.Size()
	}

	return nil
}

// sizes is the table of sizes.
func (w *workshop) sizes() table {
	t := table{
		title:  "Size of the 14 plugins, amd64",
		header: []string{"what", "merged", "separate, stripped", "unstripped, gzip -9 (today)", "merged : today", "target"},
	}

	row := func(what string, of func(shape) int64, target string) {
		t.add(what, megabytes(of(w.merged)), megabytes(of(w.separate)), megabytes(of(w.today)), ratio(of(w.merged), of(w.today)), target)
	}

	row("layer as pulled", func(s shape) int64 { return s.pull }, verdict(w.merged.pull, 2_200_000, "2.2 MB"))
	row("squashfs, zstd-18", func(s shape) int64 { return s.squashfs }, verdict(w.merged.squashfs, 2_100_000, "2.1 MB"))
	row("initramfs grows by", func(s shape) int64 { return s.initramfs }, "")
	row("unpacked", func(s shape) int64 { return s.unpacked }, "")
	row("on the disk of this machine", func(s shape) int64 { return s.disk }, "")

	return t
}
