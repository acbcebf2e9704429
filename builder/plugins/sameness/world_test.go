package sameness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// world is a node of this process's own: the process was started in a mount and a network namespace
// that nobody else has. The node's network is the process's, each pod has one beside it.
type world struct {
	pods []*pod
	// node is what sysctls were on the node before the first call.
	node map[string]string
}

type pod struct {
	name    string
	netns   *os.File
	sysctls map[string]string
}

var _ sameness.Node = (*world)(nil)

// newWorld makes the node with the plugins of a directory.
func newWorld(binDir string) (*world, error) {
	// The directory stays reachable when /run and /var/lib are covered.
	bin, err := os.Open(binDir)
	if err != nil {
		return nil, err
	}
	defer bin.Close()

	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("leaving the host's mounts: %w", err)
	}

	for _, dir := range []string{"/run", "/var/lib"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return nil, fmt.Errorf("covering %s: %w", dir, err)
		}
	}

	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return nil, fmt.Errorf("showing the namespace's own /sys: %w", err)
	}

	for _, dir := range []string{sameness.BinDir, sameness.DataDir, sameness.NetnsDir, "/run/lock"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}

	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", bin.Fd()), sameness.BinDir, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("showing the plugins: %w", err)
	}

	w := &world{}

	if err := settle(); err != nil {
		return nil, err
	}

	w.node, err = readSysctls()

	return w, err
}

// settle makes a network namespace quiet, so that nothing in it happens by itself.
func settle() error {
	for _, conf := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+conf+"/accept_dad", []byte("0"), 0o644); err != nil {
			return err
		}
	}

	return run("ip", "link", "set", "lo", "up")
}

func newPod(name string) (*pod, error) {
	place := filepath.Join(sameness.NetnsDir, name)
	if err := os.WriteFile(place, nil, 0o644); err != nil {
		return nil, err
	}

	p := &pod{name: name}

	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}

		if err := unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), place, "", unix.MS_BIND, ""); err != nil {
			return err
		}

		if err := settle(); err != nil {
			return err
		}

		p.sysctls, err = readSysctls()

		return err
	})
	if err != nil {
		return nil, err
	}

	p.netns, err = os.Open(place)

	return p, err
}

// inside runs f, and the programs it starts, in the pod's network namespace.
func (p *pod) inside(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(p.netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}

		return f()
	})
}

// onThread runs f on a thread that ends with it, since f changes what belongs to the thread.
func onThread(f func() error) error {
	done := make(chan error)

	go func() {
		runtime.LockOSThread()

		done <- f()
	}()

	return <-done
}

// Prepare makes pods, pairs of virtual Ethernet links, and files.
func (w *world) Prepare(_ context.Context, c sameness.Case) error {
	for _, name := range c.Pods() {
		p, err := newPod(name)
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}

		w.pods = append(w.pods, p)
	}

	for _, link := range c.Links {
		if err := run("ip", "link", "add", link.Name, "type", "veth", "peer", "name", link.Peer); err != nil {
			return err
		}

		if err := run("ip", "link", "set", link.Name, "up"); err != nil {
			return err
		}

		up := func() error { return run("ip", "link", "set", link.Peer, "up") }

		if link.Pod == "" {
			if err := up(); err != nil {
				return err
			}

			continue
		}

		for _, p := range w.pods {
			if p.name != link.Pod {
				continue
			}

			if err := run("ip", "link", "set", link.Peer, "netns", filepath.Join(sameness.NetnsDir, p.name)); err != nil {
				return err
			}

			if err := p.inside(up); err != nil {
				return err
			}
		}
	}

	for name, content := range c.Files {
		if err := os.WriteFile(filepath.Join(sameness.DataDir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}

	return nil
}

// Run executes a plugin on the node.
func (w *world) Run(ctx context.Context, plugin string, args, environ []string, stdin string) (sameness.Answer, error) {
	// A plugin that waits is a finding, not a reason to wait for it.
	const patience = 20 * time.Second

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var stdout, stderr bytes.Buffer

	cmd := exec.CommandContext(ctx, filepath.Join(sameness.BinDir, plugin), args...)
	cmd.Env, cmd.Dir = environ, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr

	err := cmd.Run()

	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		return sameness.Answer{}, errors.Join(ctx.Err(), err)
	}

	return sameness.Answer{Exit: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, nil
}

// has reports whether the kernel knows a kind of link.
func (w *world) has(kind string) bool {
	args := slices.Concat([]string{"link", "add", "link", "lo", "name", "probe", "type"}, strings.Fields(kind))

	switch kind {
	case "vlan":
		args = append(args, "id", "9")
	case "vrf":
		args = append(args, "table", "9")
	}

	err := run("ip", args...)
	_ = run("ip", "link", "del", "probe")

	// lo is no parent that every kind accepts, but a kernel without the kind says so first.
	return err == nil || !strings.Contains(err.Error(), "Unknown device type") && !strings.Contains(err.Error(), "Operation not supported")
}

// run runs a tool that must succeed.
func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}

	return nil
}

// separately starts this test program in namespaces of its own.
func separately(ctx context.Context, environ ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}

	return cmd
}
