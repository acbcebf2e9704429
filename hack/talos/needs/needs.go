// Package needs says what a test wants from the machine. Where it is missing the test is skipped with
// a line that says so; in CI (CI=true) it fails, because there a skip would pass for a success.
package needs

import (
	"os"
	"os/exec"
	"testing"
)

// Root asks for uid 0.
func Root(t testing.TB) {
	t.Helper()

	if os.Geteuid() != 0 {
		Missing(t, "root, to set SELinux labels and keep owners")
	}
}

// Tools asks for programs in PATH; hack/talos-packages installs all that these tests use.
func Tools(t testing.TB, names ...string) {
	t.Helper()

	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Missing(t, name+" (hack/talos-packages installs it)")
		}
	}
}

// CI reports whether this is a run that must not leave anything out.
func CI() bool { return os.Getenv("CI") == "true" }

// Missing skips the test, or fails it in CI.
func Missing(t testing.TB, what string) {
	t.Helper()

	if CI() {
		t.Fatalf("this test needs %s, and in CI it must not be skipped", what)
	}

	t.Skipf("this test needs %s", what)
}
