package imager_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/cnibake/cnibake/hack/talos/artifact"
)

// serve pushes a layout to a registry in this process, as a user does, and returns the reference by
// which to pull it.
func serve(t *testing.T, dir string) string {
	t.Helper()

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	push := exec.CommandContext(t.Context(), artifact.Command(t), "push", dir, strings.TrimPrefix(server.URL, "http://")+"/cnibake/extension:v1")
	push.Stderr = os.Stderr

	reference, err := push.Output()
	if err != nil {
		t.Fatalf("cnibake push: %v", err)
	}

	return strings.TrimSpace(string(reference))
}
