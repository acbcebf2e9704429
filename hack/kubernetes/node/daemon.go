package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Daemon is a program that runs in the node until it is stopped or the node ends.
type Daemon struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Daemon starts a program in the node. What it prints is shown under this name when the test fails.
func (n *Node) Daemon(t testing.TB, name, program string, args ...string) *Daemon {
	t.Helper()

	// The context is not the test's: daemons end in order, and the node ends whatever is left.
	d := &Daemon{cmd: n.Command(context.Background(), program, args...), done: make(chan struct{})}

	log, err := os.OpenFile(n.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()

	d.cmd.Stdout, d.cmd.Stderr = log, log

	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}

	go func() {
		defer close(d.done)

		_ = d.cmd.Wait()
	}()

	n.daemons = append(n.daemons, d)

	return d
}

// Stop asks a daemon to end and kills it after a while.
func (d *Daemon) Stop() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		d.signal(signal)

		select {
		case <-d.done:
			return
		case <-time.After(10 * time.Second):
		}
	}
}

// Ended reports whether a daemon has ended by itself.
func (d *Daemon) Ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// signal signals the child of nsenter, which does not pass signals on.
func (d *Daemon) signal(signal syscall.Signal) {
	pid := strconv.Itoa(d.cmd.Process.Pid)

	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return
	}

	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, signal)
		}
	}
}

func (n *Node) stopAll() {
	for i := len(n.daemons) - 1; i >= 0; i-- {
		n.daemons[i].Stop()
	}
}

func (n *Node) logPath(daemon string) string { return filepath.Join(n.dir, daemon+".log") }

// logs shows the end of what every daemon printed.
func (n *Node) logs(t testing.TB) {
	t.Helper()

	paths, _ := filepath.Glob(n.logPath("*"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}

		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		t.Logf("%s:\n%s", filepath.Base(path), bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
	}
}

// WaitFor asks again and again until the answer is no error, for a limited time.
func WaitFor(t testing.TB, what string, limit time.Duration, ask func() error) {
	t.Helper()

	for deadline := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}

		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatal(fmt.Errorf("waiting %v for %s: %w", limit, what, err))
		}
	}
}
