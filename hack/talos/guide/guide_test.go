// Package guide gives what our guides say to put into a machine configuration to Talos's own reader.
package guide_test

import (
	"os"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
)

func TestMachineConfigurations(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("../../../docs/vm-vlan.md")
	if err != nil {
		t.Fatal(err)
	}

	read := 0

	for _, part := range strings.Split(string(data), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if !strings.Contains(text, "kind: BridgeConfig") && !strings.HasPrefix(text, "machine:") {
			continue
		}

		read++

		if _, err := configloader.NewFromBytes([]byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}

	if read != 2 {
		t.Errorf("%d machine configurations in the guide, want 2", read)
	}
}
