package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Exit codes.
const (
	exitGood = 0
	// exitNo: the question was answered, and the answer is no.
	exitNo = 1
	// exitFailed: wrong usage, unreadable input, no network.
	exitFailed = 2
)

// answerNo is an error that means "no" rather than "could not do it".
type answerNo struct{ error }

// usageError is a command line that makes no sense.
type usageError struct {
	error
	command string
}

// exitCode prints an error as one line and returns the code for it.
func exitCode(err error, stderr io.Writer) int {
	var (
		no    answerNo
		usage usageError
	)

	switch {
	case err == nil:
		return exitGood
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "cnibake: interrupted; nothing half-written is left")
	case errors.As(err, &no):
		fmt.Fprintln(stderr, "cnibake:", err)

		return exitNo
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "cnibake: %v; see %s --help\n", err, usage.command)
	default:
		fmt.Fprintf(stderr, "cnibake: %v%s\n", err, cmp.Or(registryRemedy(err), remedy(err)))
	}

	return exitFailed
}

// remedy says what to do about faults of the machine.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return ": free some space, or choose another --out, TMPDIR or XDG_CACHE_HOME"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return ": choose a place this user can write to"
	default:
		return ""
	}
}
