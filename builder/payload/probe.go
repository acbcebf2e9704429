package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// probeTimeout is generous: a plugin answers in milliseconds, but the node may be swapping.
const probeTimeout = 30 * time.Second

// probeAttempts with doubling pauses from 1 ms make about a second.
const probeAttempts = 10

// Probe runs a plugin with CNI_COMMAND=VERSION and returns the CNI specification versions it
// supports. It fails where the file cannot be executed (noexec mount, wrong architecture, missing
// loader) and where the answer is not a CNI plugin's. The plugin gets no other environment, and an
// empty configuration on its standard input.
func Probe(ctx context.Context, name string) ([]string, error) {
	return ProbeAs(ctx, name, name)
}

// ProbeAs is Probe for a file that is called by another name, as by a symlink to a program that is
// several plugins.
func ProbeAs(ctx context.Context, file, name string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()

	var (
		stdout, stderr bounded
		err            error
	)

	for attempt := range probeAttempts {
		stdout, stderr = bounded{}, bounded{}
		err = run(ctx, file, name, &stdout, &stderr)

		// A process forked elsewhere in this program may hold a just closed file open for writing
		// until it executes its own program (golang.org/issue/22315).
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}

		time.Sleep(time.Millisecond << attempt)
	}

	// Killed is not why it failed.
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	if err != nil {
		if message := bytes.TrimSpace(stderr.kept); len(message) > 0 {
			return nil, fmt.Errorf("running it with CNI_COMMAND=VERSION: %w: %s", err, message)
		}

		return nil, fmt.Errorf("running it with CNI_COMMAND=VERSION: %w", err)
	}

	var answer struct {
		SupportedVersions []string `json:"supportedVersions"`
	}

	if err := json.Unmarshal(stdout.kept, &answer); err != nil {
		return nil, fmt.Errorf("its answer to CNI_COMMAND=VERSION is not JSON: %w", err)
	}

	if len(answer.SupportedVersions) == 0 {
		return nil, errors.New("its answer to CNI_COMMAND=VERSION names no supported versions")
	}

	return answer.SupportedVersions, nil
}

func run(ctx context.Context, file, name string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, file)
	cmd.Args[0] = name
	cmd.Env = []string{"CNI_COMMAND=VERSION"}
	cmd.Stdin = bytes.NewReader([]byte("{}"))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// Whatever it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	return cmd.Run()
}

// bounded is a buffer that keeps the first bytes and drops the rest. It embeds no bytes.Buffer, whose
// ReadFrom would take everything.
type bounded struct {
	kept []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	const limit = 64 << 10
	b.kept = append(b.kept, p[:min(limit-len(b.kept), len(p))]...)

	return len(p), nil
}
