package buildertest

import (
	"os"
	"os/exec"
	"testing"
)

// RequireRoot skips a test that only root can run; on CI it fails instead, so that nothing is
// skipped there unseen.
func RequireRoot(t testing.TB) {
	t.Helper()

	if os.Geteuid() != 0 {
		Unavailable(t, "needs root")
	}
}

// RequireTool skips a test that needs a program which is not installed, like RequireRoot, and
// returns the program's path.
func RequireTool(t testing.TB, name string) string {
	t.Helper()

	path, err := exec.LookPath(name)
	if err != nil {
		Unavailable(t, "needs "+name+", which is not installed")
	}

	return path
}

// Unavailable skips a test for which this machine lacks something, like RequireRoot.
func Unavailable(t testing.TB, why string) {
	t.Helper()

	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}

	t.Skip(why)
}
