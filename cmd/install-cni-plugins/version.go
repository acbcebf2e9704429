package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

func runVersion(_ context.Context, env environment, args []string, out io.Writer) error {
	if err := env.parse(newFlags("version"), args); err != nil {
		return err
	}

	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}

	_, err := fmt.Fprintf(out, "install-cni-plugins %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)

	return err
}
