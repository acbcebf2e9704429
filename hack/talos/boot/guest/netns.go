package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// namespace is a network namespace that has a path, as a container runtime makes it for a pod.
type namespace struct {
	path string
	file *os.File
}

// newNamespace makes a namespace with its loopback interface up.
func newNamespace(name string) (*namespace, error) {
	ns := &namespace{path: filepath.Join(netnsDir, name)}

	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return nil, err
	}

	if err := os.WriteFile(ns.path, nil, 0o444); err != nil {
		return nil, err
	}

	done := make(chan error, 1)

	go func() {
		// The thread is not unlocked: it ends with the goroutine, and its namespace with it.
		runtime.LockOSThread()

		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}

			if err := unix.Mount("/proc/thread-self/ns/net", ns.path, "", unix.MS_BIND, ""); err != nil {
				return err
			}

			return linkUp("lo")
		}()
	}()

	err := <-done
	if err == nil {
		ns.file, err = os.Open(ns.path)
	}

	if err != nil {
		return nil, fmt.Errorf("making namespace %s: %w", name, err)
	}

	return ns, nil
}

// hostNamespace is the one the machine booted in.
func hostNamespace() (*namespace, error) {
	file, err := os.Open("/proc/1/ns/net")

	return &namespace{path: "/proc/1/ns/net", file: file}, err
}

// do runs f inside the namespace. What f opens stays in it.
func (ns *namespace) do(f func() error) error {
	done := make(chan error, 1)

	go func() {
		runtime.LockOSThread()

		if err := netns.Set(netns.NsHandle(ns.file.Fd())); err != nil {
			done <- err

			return
		}

		done <- f()
	}()

	return <-done
}

func (ns *namespace) close() {
	ns.file.Close()

	if err := unix.Unmount(ns.path, unix.MNT_DETACH); err == nil {
		os.Remove(ns.path)
	}
}

// has reports whether an interface of that name is in the namespace.
func (ns *namespace) has(name string) bool {
	return ns.do(func() error {
		_, err := netlink.LinkByName(name)

		return err
	}) == nil
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}

	return netlink.LinkSetUp(link)
}

// addLink makes an interface, gives it an address unless that is empty, and sets it up.
func addLink(link netlink.Link, address string) error {
	name := link.Attrs().Name

	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}

	return setUp(name, address)
}

func setUp(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}

	if address != "" {
		parsed, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}

		if err := netlink.AddrAdd(link, parsed); err != nil {
			return fmt.Errorf("giving %s to %s: %w", address, name, err)
		}
	}

	return netlink.LinkSetUp(link)
}

// addPair makes a veth pair: name in this namespace, other in another one.
func addPair(name, address string, other *namespace, otherName, otherAddress string) error {
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: otherName, PeerNamespace: netlink.NsFd(other.file.Fd()),
	}

	if err := addLink(pair, address); err != nil {
		return err
	}

	return other.do(func() error { return setUp(otherName, otherAddress) })
}

func removeLink(name string) {
	if link, err := netlink.LinkByName(name); err == nil {
		_ = netlink.LinkDel(link)
	}
}
