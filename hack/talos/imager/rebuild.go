package imager

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/siderolabs/talos/pkg/imager/extensions"
	"github.com/siderolabs/talos/pkg/machinery/imager/quirks"
	"golang.org/x/sys/unix"
)

const selinux = "security.selinux"

// Rebuild appends the extensions of one parent directory to an initramfs, as the imager does.
func Rebuild(ctx context.Context, parent, arch, initramfs string, unpacked ...*Unpacked) error {
	builder := extensions.Builder{
		InitramfsPath:     initramfs,
		Arch:              arch,
		ExtensionTreePath: parent,
		Printf:            discard,
		Quirks:            quirks.New(Version),
	}

	direct, err := takesLabels(ctx)
	if err != nil {
		return err
	}

	if direct {
		builder.XAttrsMap = map[string]string{}
	}

	for _, u := range unpacked {
		for path, label := range u.Labels {
			path = filepath.Join(u.Dir, path)

			if direct {
				builder.XAttrsMap[path] = label

				continue
			}

			// An older mksquashfs takes labels from the file system only.
			if err := unix.Lsetxattr(path, selinux, []byte(label), 0); err != nil {
				return fmt.Errorf("labelling %s: %w", path, err)
			}
		}
	}

	return builder.Build(ctx)
}

var mksquashfsVersion = regexp.MustCompile(`mksquashfs version (\d+)\.(\d+)`)

// takesLabels reports whether mksquashfs knows the options with which the imager passes labels, which
// it does from 4.6 on.
func takesLabels(ctx context.Context) (bool, error) {
	// It exits 1 in some versions, having said what it should.
	out, err := exec.CommandContext(ctx, "mksquashfs", "-version").CombinedOutput()

	match := mksquashfsVersion.FindSubmatch(out)
	if match == nil {
		return false, fmt.Errorf("asking mksquashfs for its version: %w", err)
	}

	major, _ := strconv.Atoi(string(match[1]))
	minor, _ := strconv.Atoi(string(match[2]))

	return major > 4 || major == 4 && minor >= 6, nil
}
