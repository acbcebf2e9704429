//go:build tools

package containerd

// Only "go mod tidy" reads this file: it keeps containerd's command among the requirements.
import _ "github.com/containerd/containerd/v2/cmd/containerd"
