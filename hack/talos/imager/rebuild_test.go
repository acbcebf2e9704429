package imager_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/imager/profile"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/imager"
	"github.com/cnibake/cnibake/hack/talos/needs"
)

// TestRebuild lets the imager append each extension to an initramfs and looks at what a node gets:
// the layer list and the squashfs, file by file.
func TestRebuild(t *testing.T) {
	needs.Root(t)
	needs.Tools(t, "mksquashfs", "unsquashfs", "cpio", "zstd")

	dist := artifact.Build(t, artifact.Profiles...)

	for _, shape := range shapes {
		for _, arch := range artifact.Architectures {
			t.Run(path.Join(shape.profile, arch), func(t *testing.T) {
				parent := t.TempDir()

				unpacked, err := imager.Unpack(t.Context(), profile.ContainerAsset{TarballPath: dist.Tar(shape.profile, arch)}, arch, parent)
				if err != nil {
					t.Fatal(err)
				}

				checkTree(t, shape, unpacked, dist.Plugins(t, shape.profile, arch))

				want, err := imager.Tree(filepath.Join(unpacked.Dir, "rootfs"))
				if err != nil {
					t.Fatal(err)
				}

				initramfs := baseInitramfs(t)

				if err := imager.Rebuild(t.Context(), parent, arch, initramfs.path, unpacked); err != nil {
					t.Fatal(err)
				}

				appended := initramfs.appended(t)
				checkLayers(t, filepath.Join(appended, "extensions.yaml"), unpacked)

				layer := filepath.Join(t.TempDir(), "layer")
				run(t.Context(), t, "", nil, "unsquashfs", "-quiet", "-no-progress", "-xattrs", "-dest", layer, filepath.Join(appended, "0.sqsh"))

				got, err := imager.Tree(layer)
				if err != nil {
					t.Fatal(err)
				}

				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the squashfs differs from what was extracted (-extracted +squashfs):\n%s", diff)
				}

				for name := range got {
					label, err := labelOf(filepath.Join(layer, name))
					if want := shape.label(name); err != nil || label != want {
						t.Errorf("label of %s in the squashfs: %q, %v; want %q", name, label, err, want)
					}
				}
			})
		}
	}
}

func checkLayers(t *testing.T, list string, unpacked *imager.Unpacked) {
	t.Helper()

	var config extensions.Config

	if err := config.Read(list); err != nil {
		t.Fatal(err)
	}

	want := extensions.Config{Layers: []*extensions.Layer{{Image: "0.sqsh", Metadata: unpacked.Extension.Manifest.Metadata}}}

	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("extensions.yaml (-want +got):\n%s", diff)
	}
}

type initramfs struct {
	path string
	// size is what it had before the imager came.
	size int64
}

// baseInitramfs is the smallest that can be appended to.
func baseInitramfs(t *testing.T) initramfs {
	t.Helper()

	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "initramfs.zst")

	if err := os.WriteFile(filepath.Join(dir, "init"), []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	archive := run(t.Context(), t, dir, []byte("init\n"), "cpio", "--create", "--quiet", "-H", "newc")
	packed := run(t.Context(), t, dir, archive, "zstd", "-cq")

	if err := os.WriteFile(file, packed, 0o644); err != nil {
		t.Fatal(err)
	}

	return initramfs{path: file, size: int64(len(packed))}
}

// appended unpacks what the imager added; what was there before must be as it was.
func (i initramfs) appended(t *testing.T) string {
	t.Helper()

	content, err := os.ReadFile(i.path)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	archive := run(t.Context(), t, dir, content[i.size:], "zstd", "-dcq")
	run(t.Context(), t, dir, archive, "cpio", "--extract", "--make-directories", "--quiet")

	return dir
}

func run(ctx context.Context, t *testing.T, dir string, stdin []byte, name string, args ...string) []byte {
	t.Helper()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)

	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w: %s", name, err, stderr.Bytes()))
	}

	return out
}

func labelOf(path string) (string, error) {
	value := make([]byte, 256)

	n, err := unix.Lgetxattr(path, "security.selinux", value)
	if err != nil {
		return "", err
	}

	return string(bytes.TrimRight(value[:n], "\x00")), nil
}
