package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// twin returns a payload of the same names with other bytes.
func twin(t testing.TB, source string) string {
	t.Helper()

	dir := t.TempDir()
	m := testplugins.ManifestOf(t, source)

	for _, p := range m.Plugins {
		path := filepath.Join(dir, p.Name)
		testplugins.Copy(t, filepath.Join(source, p.File), path)

		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := f.WriteString("another build"); err != nil {
			t.Fatal(err)
		}

		f.Close()
	}

	testplugins.WriteManifest(t, dir, testplugins.ManifestOf(t, dir))

	return dir
}

// Eight installers at once, of two builds, while bridge is executed all the time: no execution
// fails, and no file is ever seen that is not one build or the other.
func TestInstallersRace(t *testing.T) {
	t.Parallel()

	const installers = 8

	rounds := 5
	if testing.Short() {
		rounds = 1
	}

	p := newPlace(t)
	sources := []string{p.source, twin(t, p.source)}
	bin := binary(t)

	if out, err := exec.Command(bin, p.args()...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	stop := make(chan struct{})

	var (
		loop       sync.WaitGroup
		executions atomic.Int64
	)

	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}

			executions.Add(1)

			cmd := exec.Command(filepath.Join(p.dest, "bridge"))
			cmd.Env = []string{"CNI_COMMAND=VERSION"}
			cmd.Stdin = bytes.NewReader([]byte("{}"))

			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("executing bridge: %v: %s", err, out)
			}
		}
	})

	known := map[string]bool{}

	for _, source := range sources {
		plugin, _ := testplugins.ManifestOf(t, source).Lookup("bridge")
		known[plugin.Digest] = true
	}

	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}

			digest, _, err := payload.DigestFile(filepath.Join(p.dest, "bridge"))
			if err != nil || !known[digest] {
				t.Errorf("bridge is seen as %s, %v", digest, err)
			}
		}
	})

	for range rounds {
		var running sync.WaitGroup

		for i := range installers {
			running.Go(func() {
				args := append(p.args(), "--strict", "--source", sources[i%2])
				if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
					t.Errorf("installer: %v: %s", err, out)
				}
			})
		}

		running.Wait()
	}

	close(stop)
	loop.Wait()
	t.Logf("bridge was executed %d times", executions.Load())

	if out, err := exec.Command(bin, p.args("--strict")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	p.want(t)

	if out, err := exec.Command(bin, "uninstall", "--dest", p.dest, "--state-dir", p.state).CombinedOutput(); err != nil {
		t.Errorf("uninstall: %v: %s", err, out)
	}

	entries, err := os.ReadDir(p.dest)
	if err != nil || len(entries) > 0 {
		t.Errorf("uninstall leaves %v, %v", entries, err)
	}
}

// Kills at random moments, each followed by one clean run.
func TestInstallIsKilledAtRandom(t *testing.T) {
	t.Parallel()

	kills := 200
	if testing.Short() {
		kills = 15
	}

	p := newPlace(t, "bridge", "static", "tuning")
	sources := []string{p.source, twin(t, p.source)}
	bin := binary(t)

	write(t, filepath.Join(p.dest, "bridge"), "there before us")

	// How long a run takes here and now, to spread the kills over it.
	start := time.Now()

	if out, err := exec.Command(bin, p.args()...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	span := time.Since(start)
	killed := 0

	for i := range kills {
		p.source = sources[(i+1)%2]

		cmd := exec.Command(bin, p.args()...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}

		time.Sleep(rand.N(span))
		cmd.Process.Signal(syscall.SIGKILL)

		if cmd.Wait() != nil {
			killed++
		}

		if out, err := exec.Command(bin, p.args("--strict")...).CombinedOutput(); err != nil {
			t.Fatalf("the clean run after kill %d: %v: %s", i, err, out)
		}

		p.want(t)

		backups, err := os.ReadDir(filepath.Join(p.state, "backups"))
		if err != nil || len(backups) != 1 {
			t.Fatalf("after kill %d there are %d backups, %v", i, len(backups), err)
		}

		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}

	t.Logf("%d of %d runs were killed before their end", killed, kills)

	if out, err := exec.Command(bin, "uninstall", "--dest", p.dest, "--state-dir", p.state).CombinedOutput(); err != nil {
		t.Errorf("uninstall: %v: %s", err, out)
	}

	data, err := os.ReadFile(filepath.Join(p.dest, "bridge"))
	wantEqual(t, "bridge", fmt.Sprint(string(data), err), "there before us<nil>")
}
