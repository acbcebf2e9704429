package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Node is a running node.
type Node struct {
	// Cgroup is the node's cgroup, as a path in every hierarchy.
	Cgroup string

	dir     string
	pid     int
	daemons []*Daemon
}

// Start makes a node that ends with the test.
func Start(t testing.TB) *Node {
	t.Helper()
	RequireRoot(t)
	RequireTools(t, "ip", "iptables", "nsenter")

	sweep(t)

	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}

	n := &Node{dir: dir, Cgroup: cgroup(dir)}

	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})

	if err := n.makeCgroups(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := n.removeCgroups(); err != nil {
			t.Error(err)
		}
	})

	if err := n.start(t); err != nil {
		t.Fatal(err)
	}

	return n
}

// start starts the first process and waits until the node is complete.
func (n *Node) start(t testing.TB) error {
	var stderr bytes.Buffer

	first := exec.Command("/proc/self/exe")
	first.Env = append(os.Environ(), dirVariable+"="+n.dir)
	first.Stderr = &stderr
	first.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}

	life, err := first.StdinPipe()
	if err != nil {
		return err
	}

	stdout, err := first.StdoutPipe()
	if err != nil {
		return err
	}

	if err := first.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}

	n.pid = first.Process.Pid

	t.Cleanup(func() {
		n.stopAll()
		life.Close()
		_ = first.Wait()

		if t.Failed() {
			n.logs(t)
		}
	})

	if said, err := io.ReadAll(io.LimitReader(stdout, int64(len(ready)))); err != nil || string(said) != ready {
		return fmt.Errorf("starting the node: %v: %s", err, stderr.Bytes())
	}

	return nil
}

// Path is where the test finds a path of the node.
func (n *Node) Path(path string) string {
	return filepath.Join("/proc", strconv.Itoa(n.pid), "root", path)
}

// Command runs a program in the node. Its child is what runs there: nsenter forks.
func (n *Node) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(n.pid), "-m", "-u", "-i", "-n", "-p", "--", name}, args...)...)
	cmd.WaitDelay = 5 * time.Second

	return cmd
}

// Try runs a program in the node, for a minute at most, and returns its standard output.
func (n *Node) Try(ctx context.Context, stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	var stdout, stderr bytes.Buffer

	cmd := n.Command(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr

	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}

	return stdout.String(), nil
}

// Run is Try for what has to succeed.
func (n *Node) Run(t testing.TB, name string, args ...string) string {
	t.Helper()

	out, err := n.Try(t.Context(), "", name, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return out
}

// Write writes a file of the node and makes its directory.
func (n *Node) Write(t testing.TB, path string, content []byte, mode os.FileMode) {
	t.Helper()

	path = n.Path(path)

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// CopyDir copies the files of a directory of this machine.
func (n *Node) CopyDir(t testing.TB, from, to string) {
	t.Helper()

	if err := os.MkdirAll(n.Path(to), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.CopyFS(n.Path(to), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Protect makes a directory of the node one that nobody can write to, by a mount.
func (n *Node) Protect(t testing.TB, dir string) {
	t.Helper()
	n.Run(t, "mount", "--bind", dir, dir)
	n.Run(t, "mount", "-o", "remount,bind,ro", dir)
}
