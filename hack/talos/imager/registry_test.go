package imager_test

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serve pushes a layout to a registry in this process and returns the reference by which to pull it.
func serve(t *testing.T, dir string) string {
	t.Helper()

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://")+"/cnibake/extension:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}

	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}

	return tag.Name()
}
