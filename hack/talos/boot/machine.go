package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// diskSize is the machine's EPHEMERAL partition, in bytes. The file is sparse.
const diskSize = 256 << 20

// newDisk makes the file system that outlives a boot.
func newDisk(ctx context.Context, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}

	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return err
	}

	return run(ctx, "", "", "mkfs.ext4", "-q", "-F", path)
}

// kernelArguments make Talos's init load its SELinux policy, in permissive mode: what the policy
// allows is asked for, and nothing of the test is in its way. With panic=-1 and -no-reboot a machine
// that cannot go on stops instead of hanging.
const kernelArguments = "console=ttyS0 panic=-1 talos.platform=metal loglevel=4 security=selinux selinux=1 enforcing=0"

// bootMachine runs a machine until it powers off. console is everything it printed.
func bootMachine(ctx context.Context, kernel *Kernel, initramfs, disk, work string) (results []plan.Result, console []byte, err error) {
	port := filepath.Join(work, "results")

	// Talos asks for x86-64-v2, which the default CPU is not. Emulation even where there is KVM: a
	// virtual machine that offers it does not always keep the promise.
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none",
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024",
		"-kernel", kernel.Image, "-initrd", initramfs, "-append", kernelArguments,
		"-drive", "if=virtio,format=raw,file="+disk,
		"-serial", "stdio", "-serial", "file:"+port)

	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out

	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}

		return nil, out.Bytes(), fmt.Errorf("running the machine: %w", err)
	}

	results, err = readResults(port)

	return results, out.Bytes(), err
}

func readResults(path string) ([]plan.Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	var results []plan.Result

	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}

		var result plan.Result

		if err := json.Unmarshal(line, &result); err != nil {
			return results, fmt.Errorf("decoding result %q: %w", line, err)
		}

		if result.Group == plan.Done {
			return results, nil
		}

		results = append(results, result)
	}

	return results, errors.New("the machine stopped before it was done")
}
