package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dirVariable, when set, makes a test program the first process of a node instead.
const dirVariable = "CNIBAKE_NODE_DIR"

// ready is what the first process says when the node is complete.
const ready = "ready\n"

// own are the node's directories that are not the machine's.
var own = []string{"/opt", "/usr/local", "/var/lib", "/var/log"}

// Addresses of a node. The first is its own, the second that of the Service "kubernetes", which is on
// the loopback interface because there is no kube-proxy.
const (
	Address        = "10.250.0.1"
	ServiceAddress = "10.96.0.1"

	// Uplink is an interface that macvlan attachments can be made on.
	Uplink = "node0p"
	Name   = "node1"
)

var network = `link set lo up
link add node0 type veth peer name ` + Uplink + `
addr add ` + Address + `/24 dev node0
link set node0 up
link set ` + Uplink + ` up
addr add ` + ServiceAddress + `/32 dev lo
route add default dev node0
`

// settings are what a kubelet would set in the kernel, for the whole machine. A file over each of them
// says that it is so already.
var settings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// Main is for every TestMain of this module: in the first process of a node it does not return.
func Main() {
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}

	if err := initialize(dir); err != nil {
		fmt.Fprintln(os.Stderr, "preparing the node:", err)
		os.Exit(1)
	}

	// Whose parent ended is a child of this process.
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)

	go func() {
		for range children {
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}()

	fmt.Print(ready)

	_, _ = io.Copy(io.Discard, os.Stdin)

	os.Exit(0)
}

func initialize(dir string) error {
	if err := mounts(dir); err != nil {
		return err
	}

	if err := unix.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}

	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(network)

	if out, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}

	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}

	// A bridge's traffic need not pass the packet filter, and without the module it does not.
	err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}

	return err
}

func mounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}

	// Namespaces of others that are mounted here would live as long as the node.
	_ = unix.Unmount("/run/netns", unix.MNT_DETACH)

	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}

	if err := mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}

	upper, work := "/run/etc/upper", "/run/etc/work"
	for _, name := range []string{upper, work, "/run/netns", "/run/lock", "/run/settings"} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}

	// Programs of the machine read more of /etc than could be listed here.
	if err := mount("etc", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work); err != nil {
		return err
	}

	for _, path := range own {
		if err := bind(filepath.Join(dir, path), path); err != nil {
			return err
		}
	}

	for _, path := range []string{"/etc/cni", "/etc/kubernetes"} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}

		if err := bind(filepath.Join(dir, path), path); err != nil {
			return err
		}
	}

	// Plugins that this machine has by chance are none of the node's.
	for _, path := range []string{"/usr/lib/cni", "/usr/libexec/cni"} {
		if _, err := os.Stat(path); err == nil {
			if err := mount("none", path, "tmpfs", 0, ""); err != nil {
				return err
			}
		}
	}

	for name, value := range settings {
		path := filepath.Join("/run/settings", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			return err
		}

		if err := mount(path, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}

	// The kubelet and the pods of Multus want mounts to propagate.
	return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")
}

func bind(from, to string) error {
	if err := os.MkdirAll(from, 0o755); err != nil {
		return err
	}

	return mount(from, to, "", unix.MS_BIND, "")
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}

	return nil
}
