package boot

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// writeInitramfs makes the initramfs as a Talos release has it, before the imager appends extensions:
// init and the root file system as rootfs.sqsh. work is a directory for what it is made of.
func writeInitramfs(ctx context.Context, path, work string, kernel *Kernel, programs Programs, p plan.Plan) error {
	root, tree := filepath.Join(work, "rootfs"), filepath.Join(work, "initramfs")

	if err := writeBase(root, kernel, programs, p); err != nil {
		return fmt.Errorf("making the root file system: %w", err)
	}

	for name, from := range map[string]string{"init": programs.Early, "talos-init": programs.TalosInit} {
		if err := copyFile(from, filepath.Join(tree, name)); err != nil {
			return err
		}
	}

	if err := kernel.CopyModules(filepath.Join(tree, "early-modules"), earlyModules); err != nil {
		return err
	}

	// Its size does not matter here and level 1 takes a second.
	if err := run(ctx, "", "", "mksquashfs", root, filepath.Join(tree, "rootfs.sqsh"), "-all-root", "-noappend", "-no-progress",
		"-quiet", "-comp", "zstd", "-Xcompression-level", "1"); err != nil {
		return err
	}

	archive := filepath.Join(work, "initramfs.cpio")

	names, err := list(tree)
	if err != nil {
		return err
	}

	if err := run(ctx, tree, names, "cpio", "--create", "--quiet", "-H", "newc", "-R", "+0:+0", "-F", archive); err != nil {
		return err
	}

	return run(ctx, "", "", "zstd", "-q", "-1", "-f", "-o", path, archive)
}

// list names everything below a directory, one a line, parents first.
func list(dir string) (string, error) {
	var names strings.Builder

	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}

		name, err := filepath.Rel(dir, path)
		names.WriteString(name + "\n")

		return err
	})

	return names.String(), err
}

func run(ctx context.Context, dir, stdin, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LC_ALL=C")

	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %s", name, err, out)
	}

	return nil
}
