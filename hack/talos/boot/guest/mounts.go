package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// disk is the machine's EPHEMERAL partition: it outlives the boot.
const disk = "/dev/vda"

// mountLikeMachined mounts what Talos mounts after its init: the late pseudo file systems, /var, and
// the overlay over /opt.
func mountLikeMachined() error {
	for _, target := range []string{"/run", "/system", "/tmp"} {
		if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}

	if err := waitFor(disk); err != nil {
		return err
	}

	if err := unix.Mount(disk, "/var", "ext4", 0, ""); err != nil {
		return fmt.Errorf("mounting /var: %w", err)
	}

	return mountOpt()
}

// mountOpt does what NewVarOverlay of Talos 1.13 (internal/pkg/mount/v3) does for /opt and what its
// volume controller does after it: the mount is made of /opt itself, and /opt gets mode and label, which
// it would otherwise have from the upper directory.
func mountOpt() error {
	for _, dir := range []string{plan.UpperDir, plan.WorkDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}

	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("opening an overlay: %w", err)
	}
	defer unix.Close(fs)

	for _, option := range [][2]string{{"upperdir", plan.UpperDir}, {"workdir", plan.WorkDir}, {"lowerdir", "/opt"}} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return fmt.Errorf("setting %s: %w", option[0], err)
		}
	}

	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("creating the overlay: %w", err)
	}

	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mounting the overlay: %w", err)
	}
	defer unix.Close(mount)

	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, "/opt", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("moving the overlay to /opt: %w", err)
	}

	if err := os.Chmod("/opt", 0o755); err != nil {
		return err
	}

	return unix.Lsetxattr("/opt", "security.selinux", []byte("system_u:object_r:opt_t:s0"), 0)
}

func waitFor(path string) error {
	for range 50 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}

		time.Sleep(100 * time.Millisecond)
	}

	return fmt.Errorf("waiting for %s: it did not appear", path)
}
