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

	_, err := fmt.Fprintf(out, "install-cni-plugins %s %s %s/%s\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)

	return err
}

func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}

	return "(devel)"
}
