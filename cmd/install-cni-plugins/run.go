package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// program is what a verb may use of the world around it.
type program struct {
	env            environment
	stdout, stderr io.Writer
	// terminationLog is the file that Kubernetes shows as the reason for a container's end.
	terminationLog string
}

// verb reads its flags and environment and does its work. Results go to out.
type verb func(ctx context.Context, env environment, args []string, out io.Writer) error

var verbs = map[string]verb{
	"install":   runInstall,
	"verify":    runVerify,
	"uninstall": runUninstall,
	"unshadow":  runUnshadow,
	"watch":     runWatch,
	"doctor":    runDoctor,
	"version":   runVersion,
	"help":      runHelp,
}

func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p := program{env: newEnvironment(environ), stdout: stdout, stderr: stderr, terminationLog: "/dev/termination-log"}

	return p.run(ctx, args)
}

func (p program) run(ctx context.Context, args []string) int {
	name := "install"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}

	v, ok := verbs[name]
	if !ok {
		v = func(context.Context, environment, []string, io.Writer) error {
			return usagef("unknown command %q", name)
		}
	}

	out := &results{Writer: p.stdout}

	err := v(ctx, p.env, args, out)
	if errors.Is(err, flag.ErrHelp) {
		err = runHelp(ctx, p.env, nil, out)
	}

	// Install has said so itself: what it did on the node counts more. A watch's results are its log,
	// and the plugins count more.
	if err == nil && name != "install" && name != "watch" {
		err = out.err
	}

	if err == nil {
		return 0
	}

	text := err.Error()
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}

	fmt.Fprint(p.stderr, text)

	var q *note
	if name == "install" && !errors.As(err, &q) {
		if err := writeTerminationLog(p.terminationLog, text); err != nil {
			fmt.Fprintf(p.stderr, "writing the termination log: %v\n", err)
		}
	}

	return exitCode(err)
}

// exitCode maps errors to exit codes: 0 good, 1 the answer is no, 2 could not do it.
//
// A node that is read-only, full or lacks its bin directory does not make install fail, unless
// --strict asks for it: as an init container it would keep every pod of the node from getting its
// network, also those that need none of the plugins. It says so on stderr and in the termination
// log instead. A value in a flag or in the environment that means nothing is not the node's fault
// but the manifest's, equal on all nodes: that is 2 also for install, because guessing what was
// meant would be silently wrong on all of them, and a rollout stops at the first.
func exitCode(err error) int {
	var (
		tolerated *toleratedError
		no        *answerNo
		remarks   *note
	)

	switch {
	case errors.As(err, &tolerated), errors.As(err, &remarks):
		return 0
	case errors.As(err, &no):
		return 1
	default:
		return 2
	}
}
