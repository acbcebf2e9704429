package node

import (
	"os"
	"os/exec"
	"testing"
)

// RequireRoot skips a test that only root can run. In CI (CI=true) it fails instead, because there a
// skip would pass for a success.
func RequireRoot(t testing.TB) {
	t.Helper()

	if os.Geteuid() != 0 {
		Unavailable(t, "root")
	}
}

// RequireTools is RequireRoot for programs in PATH.
func RequireTools(t testing.TB, names ...string) {
	t.Helper()

	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Unavailable(t, name+", which hack/install-test-tools installs")
		}
	}
}

// Unavailable is RequireRoot for anything else.
func Unavailable(t testing.TB, what string) {
	t.Helper()

	if os.Getenv("CI") == "true" {
		t.Fatalf("this test needs %s, and in CI it must not be skipped", what)
	}

	t.Skipf("this test needs %s", what)
}
