package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type callFigures struct {
	// Medians in seconds.
	Version, Add pair
	// Memory is the peak of one ADD in bytes.
	Memory pair
	// Cached is what of the plugins one ADD after a cold start leaves in the page cache.
	Cached pair
}

// pair is a figure of the merged and of the separate plugins.
type pair struct{ Merged, Separate float64 }

const (
	nodeVariable = "CNIBAKE_BENCH_NODE"
	rounds       = 200
)

// measureCalls measures in namespaces of its own, with both sides in turn.
func (w *workshop) measureCalls() error {
	progress("calling plugins")

	var stdout, stderr bytes.Buffer

	cmd := exec.CommandContext(w.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+w.merged.dir+":"+w.separate.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("calling plugins: %w: %s", err, stderr.String())
	}

	return json.Unmarshal(stdout.Bytes(), &w.calls)
}

// peak is the most memory that a program held, in bytes. A process that this one starts would begin
// with this one's own peak, so something small starts it.
func (w *workshop) peak(environ []string, stdin, name string, args ...string) (int64, error) {
	var stderr bytes.Buffer

	cmd := exec.CommandContext(w.ctx, "time", append([]string{"-f", "\n%M", name}, args...)...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr

	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}

	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")

	kilobytes, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)

	return kilobytes << 10, err
}

// node is the table of what a node pays.
func (w *workshop) node() table {
	t := table{title: "On the node", header: []string{"what", "merged", "against", "ratio", "target"}}

	against := func(what string, figure float64) string { return what + ": " + duration(figure) }
	latency := func(what string, p pair) {
		most := 1.10 * p.Separate
		t.add(fmt.Sprintf("%s, median of %d, in turn", what, rounds), duration(p.Merged), against("separate", p.Separate), ratio(p.Merged, p.Separate), verdict(p.Merged, most, "1.10"))
	}

	latency("plugin start-up (VERSION)", w.calls.Version)
	latency("bridge ADD with host-local", w.calls.Add)
	t.add("peak memory of that ADD", megabytes(int64(w.calls.Memory.Merged)), "separate: "+megabytes(int64(w.calls.Memory.Separate)), ratio(w.calls.Memory.Merged, w.calls.Memory.Separate), "")
	t.add("page cache after that ADD, from cold", megabytes(int64(w.calls.Cached.Merged)), "separate: "+megabytes(int64(w.calls.Cached.Separate)), ratio(w.calls.Cached.Merged, w.calls.Cached.Separate), "")
	t.add("staging, first", duration(w.staging.first), against("cp loop, unstripped", w.staging.loopFirst), ratio(w.staging.first, w.staging.loopFirst), "")
	t.add("staging, nothing to do", duration(w.staging.unchanged), against("cp loop again", w.staging.loopAgain), ratio(w.staging.unchanged, w.staging.loopAgain), "")
	t.add("peak memory of the installer, verifying", megabytes(w.staging.memory), "", "", "")

	return t
}

// dropCached lets the kernel forget the pages of all files of a directory.
func dropCached(dir string) error {
	return eachFile(dir, func(file *os.File) error {
		if err := file.Sync(); err != nil {
			return err
		}

		return fadviseDontNeed(file)
	})
}

func eachFile(dir string, do func(*os.File) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	for _, entry := range entries {
		file, err := os.Open(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}

		err = do(file)
		file.Close()

		if err != nil {
			return err
		}
	}

	return nil
}
