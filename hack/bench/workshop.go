package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shape is one way to carry the plugins.
type shape struct {
	// dir holds the plugins, each under its name.
	dir string
	// pull is the size of the compressed layer, the rest are bytes too.
	pull, unpacked, disk, squashfs, initramfs int64
}

// workshop is where everything is made and measured.
type workshop struct {
	ctx                     context.Context
	dir, cnibake, installer string

	merged, separate, today shape
	build                   buildFigures
	staging                 stagingFigures
	calls                   callFigures
}

func (w *workshop) path(elements ...string) string {
	return filepath.Join(append([]string{w.dir}, elements...)...)
}

// prepare compiles our programs, which is not what is measured.
func (w *workshop) prepare() error {
	progress("compiling cnibake and the installer")

	if err := w.run("", nil, "go", "build", "-buildvcs=false", "-o", w.cnibake, "./cmd/cnibake"); err != nil {
		return err
	}

	return w.run("", []string{"CGO_ENABLED=0"}, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", w.installer, "./cmd/install-cni-plugins")
}

// run runs a command that must succeed, in a directory, with more variables.
func (w *workshop) run(dir string, environ []string, name string, args ...string) error {
	_, err := w.measure(dir, environ, name, args...)

	return err
}

// usage is what a command took.
type usage struct {
	seconds float64
	// cpu is what all its processes computed, in seconds; unlike the time it does not grow when others
	// use the machine too.
	cpu float64
	// memory is the peak in bytes of the largest process.
	memory int64
}

func (w *workshop) measure(dir string, environ []string, name string, args ...string) (usage, error) {
	var out bytes.Buffer

	cmd := exec.CommandContext(w.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = &out, &out

	// What earlier commands left to be written to disk must not slow this one down.
	unix.Sync()

	start := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.String())
	}

	taken := usage{seconds: since(start)}
	if rusage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		taken.memory = rusage.Maxrss << 10
	}

	taken.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()

	return taken, nil
}

// output returns what a command prints.
func (w *workshop) output(name string, args ...string) (string, error) {
	out, err := exec.CommandContext(w.ctx, name, args...).Output()

	return strings.TrimSpace(string(out)), err
}

func progress(what string) {
	fmt.Fprintln(os.Stderr, what)
}
