package testplugins

import (
	"os"
	"os/exec"
	"testing"
)

// lack skips a test for which this machine lacks something. In CI that is a failure: there nobody
// would see that tests are skipped.
func lack(t testing.TB, format string, args ...any) {
	t.Helper()

	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}

	t.Skipf(format, args...)
}

// NeedRoot ends the test where it does not run as root.
func NeedRoot(t testing.TB) {
	t.Helper()

	if os.Geteuid() != 0 {
		lack(t, "this test mounts or changes users: run it as root")
	}
}

// NeedTool ends the test where a program is not installed. pkg is the Debian package that has it.
func NeedTool(t testing.TB, tool, pkg string) {
	t.Helper()

	if _, err := exec.LookPath(tool); err != nil {
		lack(t, "this test needs %s: install the package %s", tool, pkg)
	}
}

// Need ends the test where something else that it needs did not work.
func Need(t testing.TB, err error, what string) {
	t.Helper()

	if err != nil {
		lack(t, "this test needs %s: %v", what, err)
	}
}
