package payload_test

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
)

// InspectELF finds what debug/buildinfo finds, in our plugins and in programs that are not ours.
func TestInspectELFAgainstInspect(t *testing.T) {
	t.Parallel()

	var names []string

	for _, arch := range []string{"amd64", "arm64"} {
		for _, file := range buildertest.Plugins(t, arch).Files {
			names = append(names, file.Path)
		}
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	names = append(names, self, "/bin/ls")

	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		want, err := payload.Inspect(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		got, err := payload.InspectELF(bytes.NewReader(data))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}

		if name != "/bin/ls" && got.BuildInfo == nil {
			t.Errorf("%s has no build info", name)
		}
	}
}
