package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// A program cut short anywhere is known to be, wherever its headers lie.
func TestIsCutShort(t *testing.T) {
	t.Parallel()

	for _, shape := range []testplugins.Shape{testplugins.Stripped, testplugins.Unstripped} {
		whole, err := os.ReadFile(filepath.Join(testplugins.Dir(t, shape), "static"))
		if err != nil {
			t.Fatal(err)
		}

		if isCutShort(bytes.NewReader(whole), int64(len(whole))) {
			t.Errorf("a whole %s program is taken for cut short", shape)
		}

		for _, size := range []int{4, 16, 63, 64, 65, 100, 400, 500, 1000, 4096, len(whole) / 2, len(whole) - 4096, len(whole) - 1} {
			if !isCutShort(bytes.NewReader(whole[:size]), int64(size)) {
				t.Errorf("a %s program of %d bytes is taken for whole after %d", shape, len(whole), size)
			}
		}
	}
}
