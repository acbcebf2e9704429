// Command cnibake bakes the CNI reference plugins into Kubernetes node images.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second one ends what does not look at the context, such as a question for a password.
	context.AfterFunc(ctx, stop)

	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)

	stop()
	os.Exit(code)
}
