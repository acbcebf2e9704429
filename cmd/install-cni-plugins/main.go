// Command install-cni-plugins stages CNI plugins on a node and keeps account of what it did there.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	limitMemory()
	prepareProcess()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)

	stop()
	os.Exit(code)
}
