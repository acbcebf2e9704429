package main

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCheck runs the stories in testdata/check, where it matters which exit code a verdict has.
func TestCheck(t *testing.T) {
	t.Parallel()

	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/check",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"oneline": oneLine, "exits": exits},
	})
}

// exits runs a program that has to end with an exit code: exits CODE PROGRAM ARGUMENT...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}

	want, err := strconv.Atoi(args[0])
	ts.Check(err)

	err = ts.Exec(args[1], args[2:]...)

	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}

	if got != want {
		ts.Fatalf("exit code %d instead of %d", got, want)
	}
}
