package oci_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

func TestGet(t *testing.T) {
	t.Parallel()

	server := buildertest.DockerRegistry(t, true)
	client := newClient(t, server)
	reference := server.Host + "/test:v1"

	copied, err := oci.Copy(t.Context(), openLayout(t, flatLayout(t)), repository(t, client, reference))
	if err != nil {
		t.Fatal(err)
	}

	if digest, err := client.Digest(t.Context(), reference); err != nil || digest != copied.Digest {
		t.Errorf("digest is %s, pushed was %s: %v", digest, copied.Digest, err)
	}

	index, err := client.Get(t.Context(), reference)
	if err != nil || index.Index == nil || index.Image != nil || index.Descriptor.Digest != copied.Digest {
		t.Fatalf("got %+v: %v", index, err)
	}

	manifest, err := index.Index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	image, err := client.Get(t.Context(), server.Host+"/test@"+manifest.Manifests[0].Digest.String())
	if err != nil || image.Image == nil || image.Index != nil {
		t.Errorf("got %+v: %v", image, err)
	}

	for reference, want := range map[string]error{
		server.Host + "/test:v2":  oci.ErrNotFound,
		server.Host + "/other:v1": oci.ErrNotFound,
	} {
		if _, err := client.Get(t.Context(), reference); !errors.Is(err, want) {
			t.Errorf("%s: %v", reference, err)
		}

		if _, err := client.Digest(t.Context(), reference); !errors.Is(err, want) || !strings.Contains(err.Error(), reference) {
			t.Errorf("%s: %v", reference, err)
		}
	}

	if _, err := client.Get(t.Context(), "not a reference"); err == nil {
		t.Error("a reference with blanks")
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()

	server := buildertest.DockerRegistry(t, true)
	absent := server.Host + "/test:v1"

	for name, test := range map[string]struct {
		options []oci.ClientOption
		want    error
	}{
		"unknown authority":         {nil, oci.ErrCertificate},
		"insecure":                  {[]oci.ClientOption{oci.WithInsecure()}, oci.ErrUnauthorized},
		"insecure, with a password": {[]oci.ClientOption{oci.WithInsecure(), oci.WithKeychain(oneLogin{server})}, oci.ErrNotFound},
	} {
		client, err := oci.NewClient(test.options...)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := client.Digest(t.Context(), absent); !errors.Is(err, test.want) {
			t.Errorf("%s: error is %v, want %v", name, err, test.want)
		}
	}
}

// A configuration is held in memory as a whole, so its size is not for a registry to choose.
func TestHugeConfiguration(t *testing.T) {
	t.Parallel()

	server := buildertest.MemoryRegistry(t, true)
	client := newClient(t, server)

	for _, size := range []int64{-1, 5 << 20} {
		manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":%q},"layers":[]}`,
			size, sha(nil))

		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/v2/test/manifests/v1", strings.NewReader(manifest))
		if err != nil {
			t.Fatal(err)
		}

		request.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")

		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}

		response.Body.Close()

		if _, err := client.Get(t.Context(), server.Host+"/test:v1"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot have %d bytes", size)) {
			t.Errorf("error is %v", err)
		}
	}
}

// A registry that redirects in circles is left.
func TestEndlessRedirects(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	if _, err := client.Digest(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/r:v1"); err == nil || !strings.Contains(err.Error(), "redirects more than 10 times") {
		t.Errorf("error is %v", err)
	}
}
