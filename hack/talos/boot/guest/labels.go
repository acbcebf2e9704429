package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

const (
	// containerRuntime is the domain of containerd for pods, from Talos's policy.
	containerRuntime = "system_u:system_r:pod_containerd_t:s0"

	selinuxfs = "/sys/fs/selinux"
)

// checkLabels reads the labels through every layer and asks the policy, which Talos's init has loaded
// into the kernel, whether the runtime may execute what carries them.
func checkLabels(r *recorder, p plan.Plan) {
	for _, path := range slices.Sorted(maps.Keys(p.Labels)) {
		r.check("labels", path, func() error {
			label, err := labelOf(path)
			if err != nil {
				return err
			}

			if label != p.Labels[path] {
				return fmt.Errorf("label %q, want %q", label, p.Labels[path])
			}

			return nil
		})
	}

	for _, plugin := range p.Plugins {
		path := filepath.Join(p.PluginDir, plugin.Name)

		r.check("policy", "runtime executes "+path, func() error {
			label, err := labelOf(path)
			if err != nil {
				return err
			}

			return mayExecute(label)
		})
	}

	// The reason for labelling at all: what /usr is labelled with, the runtime may not execute.
	r.check("policy", "runtime does not execute usr_t", func() error {
		if mayExecute("system_u:object_r:usr_t:s0") == nil {
			return fmt.Errorf("the policy lets %s execute usr_t", containerRuntime)
		}

		return nil
	})
}

func labelOf(path string) (string, error) {
	value := make([]byte, 256)

	n, err := unix.Lgetxattr(path, "security.selinux", value)
	if err != nil {
		return "", fmt.Errorf("reading the label of %s: %w", path, err)
	}

	return string(bytes.TrimRight(value[:n], "\x00")), nil
}

// mayExecute is nil when the loaded policy allows the runtime what starting a plugin takes.
func mayExecute(label string) error {
	for _, permission := range []string{"read", "execute", "execute_no_trans"} {
		allowed, err := allows(containerRuntime, label, permission)
		if err != nil {
			return err
		}

		if !allowed {
			return fmt.Errorf("the policy denies %s %q on %s", containerRuntime, permission, label)
		}
	}

	return nil
}

// allows asks selinuxfs; the answer is a mask in which each permission has a bit.
func allows(subject, object, permission string) (bool, error) {
	class, err := number(filepath.Join(selinuxfs, "class/file/index"))
	if err != nil {
		return false, err
	}

	bit, err := number(filepath.Join(selinuxfs, "class/file/perms", permission))
	if err != nil {
		return false, err
	}

	file, err := os.OpenFile(filepath.Join(selinuxfs, "access"), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()

	if _, err := fmt.Fprintf(file, "%s %s %d", subject, object, class); err != nil {
		return false, fmt.Errorf("asking the policy about %s: %w", object, err)
	}

	answer := make([]byte, 256)

	n, err := file.Read(answer)
	if err != nil {
		return false, err
	}

	mask, _, _ := strings.Cut(string(answer[:n]), " ")

	allowed, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return false, err
	}

	return allowed&(1<<(bit-1)) != 0, nil
}

func number(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}

	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
}
