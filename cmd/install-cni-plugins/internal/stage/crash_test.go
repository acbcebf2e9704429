package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A crash is real: the test program runs itself, and that one kills itself before the call with
// the given number. What it is to do is in the environment.
const crashVariable = "STAGE_TEST_CRASH"

type crashOrder struct {
	At                  int
	Uninstall           bool
	Source, Dest, State string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(crashVariable); text != "" {
		obey(text)
	}

	os.Exit(m.Run())
}

func obey(text string) {
	var order crashOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		panic(err)
	}

	calls := 0
	repeated := map[string]int{}

	sys := system{before: func(call, path string) error {
		// A file is copied in many equal steps; its first three stand for all.
		if call == "read" || call == "write" {
			if repeated[call+path]++; repeated[call+path] > 3 {
				return nil
			}
		}

		if calls++; calls == order.At {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}

		return nil
	}}

	var err error

	if order.Uninstall {
		_, err = Uninstall(context.Background(), UninstallOptions{
			Source: order.Source, Dest: order.Dest, StateDir: order.State, system: sys,
		})
	} else {
		_, err = Install(context.Background(), InstallOptions{
			Source: order.Source, Dest: order.Dest, StateDir: order.State, Update: Always, workers: 1, system: sys,
		})
	}

	if err != nil {
		panic(err)
	}

	os.Exit(0)
}

// crash runs an operation that dies before its call number at; done says that it was over before.
func (n *node) crash(at int, uninstall bool) (done bool) {
	n.Helper()

	text, err := json.Marshal(crashOrder{At: at, Uninstall: uninstall, Source: n.source, Dest: n.dest, State: n.state})
	must(n, err)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"="+string(text))

	out, err := cmd.CombinedOutput()

	var exit *exec.ExitError

	switch {
	case err == nil:
		return true
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return false
	default:
		n.Fatalf("crash at %d: %v: %s", at, err, out)

		return true
	}
}

// steps calls try for every call number until the operation is over before it, or for some of them
// when tests are to be short.
func steps(t *testing.T, try func(t *testing.T, at int) (done bool)) {
	t.Helper()

	stride := 1
	if testing.Short() {
		stride = 7
	}

	for at := 1; ; at += stride {
		done := false

		if !t.Run(fmt.Sprint(at), func(t *testing.T) { done = try(t, at) }) || done {
			return
		}
	}
}

func TestInstallIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()

	source := newNode(t, "static", "tuning", "vrf")

	steps(t, func(t *testing.T, at int) bool {
		n := &node{TB: t, source: source.source, dest: t.TempDir(), state: t.TempDir()}
		n.put("tuning", "before", 0o755)
		must(t, os.Symlink("elsewhere", n.dest+"/vrf"))
		before := snapshot(t, n.dest)

		done := n.crash(at, false)

		// At the moment of the crash every name is the old one or the new one.
		staged := n.staged()
		for name, what := range snapshot(t, n.dest) {
			if !strings.HasPrefix(name, ".") && what != before[name] && what != staged[name] {
				t.Errorf("%s is %s", name, what)
			}
		}

		n.install()
		equal(t, "directory", snapshot(t, n.dest), staged)
		n.consistent()
		equal(t, "names in the record", len(n.readRecord()), 3)

		n.uninstall()
		equal(t, "uninstalled", snapshot(t, n.dest), before)
		equal(t, "state", snapshot(t, n.state), map[string]string{})

		return done
	})
}

// A crash in a run over what an earlier run wrote; undone without another installation in between.
func TestUpdateIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()

	old := newNode(t, "static", "tuning", "vrf")
	updated := newNode(t, "static", "tuning", "vrf")
	updated.drop("vrf")
	updated.rebuild("tuning", "static")

	steps(t, func(t *testing.T, at int) bool {
		n := &node{TB: t, source: old.source, dest: t.TempDir(), state: t.TempDir()}
		n.put("tuning", "before", 0o755)
		before := snapshot(t, n.dest)

		n.install()
		n.source = updated.source
		done := n.crash(at, false)

		n.uninstall()
		equal(t, "uninstalled", snapshot(t, n.dest), before)
		equal(t, "state", snapshot(t, n.state), map[string]string{})

		return done
	})
}

func TestUninstallIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()

	source := newNode(t, "static", "tuning", "vrf")

	steps(t, func(t *testing.T, at int) bool {
		n := &node{TB: t, source: source.source, dest: t.TempDir(), state: t.TempDir()}
		n.put("tuning", "before", 0o755)
		must(t, os.Symlink("elsewhere", n.dest+"/vrf"))
		before := snapshot(t, n.dest)
		n.install()

		done := n.crash(at, true)

		n.uninstall()
		equal(t, "uninstalled", snapshot(t, n.dest), before)
		equal(t, "state", snapshot(t, n.state), map[string]string{})

		return done
	})
}
