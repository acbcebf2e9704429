// Package gotool runs the user's Go toolchain so that its output depends on the sources and the
// toolchain alone: an allow-listed environment, pinned build settings, sums that we bring ourselves.
package gotool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrNoToolchain says that there is no usable go command.
var ErrNoToolchain = errors.New("no Go toolchain found")

// Toolchain is a Go toolchain and the fixed environment it is run in.
type Toolchain struct {
	command string
	version string
	env     []string
}

// userSettings are the settings that say where and how to fetch modules and where to keep what was
// fetched or compiled. They are taken from the user's environment or `go env -w`, because they
// cannot change a byte of the output; everything else is fixed.
var userSettings = []string{
	"GOAUTH", "GOCACHE", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY", "GOSUMDB", "GOVCS",
}

// passedThrough are the variables of the environment that reach the go command as they are: what it
// needs to find programs, home, credentials and the way through a proxy.
var passedThrough = []string{
	"HOME", "PATH", "TMPDIR", "NETRC", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// fixedSettings are every setting that could change the output.
var fixedSettings = []string{
	"CGO_ENABLED=0",
	"GO111MODULE=on",
	"GOAMD64=v1",
	"GOARM64=v8.0",
	"GOARM=7",
	"GODEBUG=",
	"GOENV=off",
	"GOEXPERIMENT=",
	"GOFIPS140=off",
	"GOFLAGS=",
	"GOOS=linux",
	"GOTOOLCHAIN=local",
	"GOWORK=off",
	"LC_ALL=C",
}

// Find looks for the go command in the PATH of the given environment ("KEY=value" pairs) and reads
// the user's settings. Without a usable one the error wraps ErrNoToolchain.
func Find(ctx context.Context, environ []string) (*Toolchain, error) {
	command, err := lookPath("go", environ)
	if err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(ctx, command, append([]string{"env", "-json", "GOVERSION"}, userSettings...)...)
	// GOTOOLCHAIN=local: the toolchain that is asked must be the one that builds. The others could
	// make even `go env` fail; an empty one would not override what `go env -w` wrote.
	cmd.Env = append(slices.Clone(environ), "GOTOOLCHAIN=local", "GOROOT=", "GOFLAGS=", "GO111MODULE=on", "GOWORK=off",
		"GOEXPERIMENT=none", "GOFIPS140=off")
	cmd.Dir = os.TempDir()

	out, err := output(ctx, cmd)
	if ctx.Err() != nil {
		return nil, err
	}

	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoToolchain, err)
	}

	settings := make(map[string]string)
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("%w: reading the answer of go env: %w", ErrNoToolchain, err)
	}

	t := &Toolchain{command: command, version: settings["GOVERSION"], env: slices.Clone(fixedSettings)}

	for _, key := range userSettings {
		if settings[key] != "" {
			t.env = append(t.env, key+"="+settings[key])
		}
	}

	for _, pair := range environ {
		if key, _, _ := strings.Cut(pair, "="); slices.Contains(passedThrough, key) {
			t.env = append(t.env, pair)
		}
	}

	return t, nil
}

// Version is the toolchain's version as Go prints it, for example go1.26.8.
func (t *Toolchain) Version() string {
	return t.version
}

// BuildDir compiles main packages of the module in dir for linux and the architecture, stripped and
// without paths, and writes each program under its package's base name into out, which must exist.
func (t *Toolchain) BuildDir(ctx context.Context, dir, arch, ldflags, out string, packages []string) error {
	// The go command runs in dir, which is not where a relative path starts.
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}

	args := []string{
		"build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", strings.TrimSpace("-s -w " + ldflags),
		"-o", out + string(filepath.Separator),
	}

	cmd := t.run(ctx, dir, append(args, packages...)...)
	cmd.Env = append(cmd.Env, "GOARCH="+arch)

	if _, err := output(ctx, cmd); err != nil {
		return fmt.Errorf("compiling for %s: %w", arch, err)
	}

	return nil
}

// run prepares a go command that is interrupted, together with the compilers it started, when the
// context ends.
func (t *Toolchain) run(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.command, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(t.env), "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second

	return cmd
}

// output runs a command and returns what it printed; the error carries what it complained about.
func output(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer

	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	err := cmd.Run()

	// Killed is not why it failed.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", cmd.Args[1], err, complaint(stdout.Bytes(), stderr.String()))
	}

	return stdout.Bytes(), nil
}

// complaint makes one line of what the go command printed when it failed.
func complaint(stdout []byte, stderr string) string {
	// `go mod download -json` reports on stdout instead.
	if strings.TrimSpace(stderr) == "" {
		var answer struct{ Error string }
		if json.Unmarshal(stdout, &answer) == nil {
			stderr = answer.Error
		}
	}

	// After an empty line follow explanations for people who edit a go.sum themselves.
	message, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n\n")

	var lines []string
	for line := range strings.Lines(message) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}

	message = strings.Join(lines, "; ")

	const keep = 4096 // the end of a compiler's output is where it says why
	if len(message) > keep {
		message = "..." + message[len(message)-keep:]
	}

	return message
}

// lookPath finds a program in the PATH of the given environment, which may not be this process's.
func lookPath(name string, environ []string) (string, error) {
	for _, pair := range environ {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}

		for _, dir := range filepath.SplitList(list) {
			candidate := filepath.Join(dir, name)
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(candidate) {
				return candidate, nil
			}
		}
	}

	return "", fmt.Errorf("%w in PATH", ErrNoToolchain)
}
