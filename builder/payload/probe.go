package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// probeTimeout is generous: a plugin answers in milliseconds, but the node may be swapping.
const probeTimeout = 30 * time.Second

// Probe runs a plugin with CNI_COMMAND=VERSION and returns the CNI specification versions it
// supports. It fails where the file cannot be executed (noexec mount, wrong architecture, missing
// loader) and where the answer is not a CNI plugin's. The plugin gets no other environment, and an
// empty configuration on its standard input.
func Probe(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()

	var stdout, stderr bounded

	cmd := exec.CommandContext(ctx, name)
	cmd.Env = []string{"CNI_COMMAND=VERSION"}
	cmd.Stdin = bytes.NewReader([]byte("{}"))
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second

	if err := cmd.Run(); err != nil {
		if message := bytes.TrimSpace(stderr.Bytes()); len(message) > 0 {
			return nil, fmt.Errorf("running it with CNI_COMMAND=VERSION: %w: %s", err, message)
		}

		return nil, fmt.Errorf("running it with CNI_COMMAND=VERSION: %w", err)
	}

	var answer struct {
		SupportedVersions []string `json:"supportedVersions"`
	}

	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("its answer to CNI_COMMAND=VERSION is not JSON: %w", err)
	}

	if len(answer.SupportedVersions) == 0 {
		return nil, errors.New("its answer to CNI_COMMAND=VERSION names no supported versions")
	}

	return answer.SupportedVersions, nil
}

// bounded is a buffer that keeps the first bytes and drops the rest.
type bounded struct {
	bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	const limit = 64 << 10
	if room := limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}

	return len(p), nil
}
