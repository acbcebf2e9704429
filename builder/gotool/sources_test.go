package gotool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/gotool"
)

func TestSourceFiles(t *testing.T) {
	t.Parallel()

	tool, err := gotool.Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}

	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}

	files, err := tool.SourceFiles(t.Context(), root, "arm64", []string{"./cmd/install-cni-plugins"})
	if err != nil {
		t.Fatal(err)
	}

	// Embedded files and other modules' count, the standard library, tests and other architectures do not.
	for _, want := range []string{"cmd/install-cni-plugins/main.go", "builder/payload/binary.go", "profiles/distro/distros.json"} {
		if !slices.Contains(files, filepath.Join(root, want)) {
			t.Errorf("%s is missing", want)
		}
	}

	if !slices.ContainsFunc(files, func(name string) bool { return strings.HasSuffix(name, "/unix/zsyscall_linux_arm64.go") }) {
		t.Error("a dependency's files are missing")
	}

	for _, name := range files {
		if strings.HasSuffix(name, "/src/os/file.go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_amd64.go") {
			t.Errorf("%s does not belong to it", name)
		}
	}

	if _, err := tool.SourceFiles(t.Context(), root, "arm64", []string{"./nonexistent"}); err == nil || !strings.Contains(err.Error(), "listing sources for arm64") {
		t.Errorf("error is %v", err)
	}
}
