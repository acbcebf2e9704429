// Command bench measures, in one run, what the merged program is worth: sizes, build times and what a
// node pays, against separately linked plugins and against what people do today. It prints Markdown.
// Figures of one run can be compared with each other; machines differ too much for anything else.
//
// It needs root, and the packages cpio, iproute2, squashfs-tools, time and zstd.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if os.Getenv(nodeVariable) != "" {
		exit(measureOnNode(ctx))
	}

	exit(bench(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}

	os.Exit(0)
}

func bench(ctx context.Context) error {
	// Not /tmp: that is often a file system in memory, and what is copied there costs no disk.
	work, err := os.MkdirTemp("/var/tmp", "cnibake-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	w := &workshop{ctx: ctx, dir: work, cnibake: filepath.Join(work, "cnibake"), installer: filepath.Join(work, "install-cni-plugins")}

	for _, step := range []func() error{w.prepare, w.measureBuilds, w.measureSizes, w.measureStaging, w.measureCalls} {
		if err := step(); err != nil {
			return err
		}
	}

	fmt.Printf("Measured %s on %s.\n\n", time.Now().Format(time.DateOnly), machine())

	for _, table := range []table{w.sizes(), w.builds(), w.node()} {
		table.print(os.Stdout)
	}

	return nil
}

// since is how many seconds ago a time was.
func since(start time.Time) float64 { return time.Since(start).Seconds() }
