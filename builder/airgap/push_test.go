package airgap_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

func newClient(t *testing.T) *oci.Client {
	t.Helper()

	client, err := oci.NewClient(oci.WithRetries(3, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}

	return client
}

func openSigned(t *testing.T) (*airgap.Bundle, attest.Policy) {
	t.Helper()

	bundle, policy := newSigned(t)

	b, err := open(t, bundle)
	if err != nil {
		t.Fatal(err)
	}

	return b, policy
}

func head(t *testing.T, reference string) *v1.Descriptor {
	t.Helper()

	descriptor, err := remote.Head(parse(t, reference))
	if err != nil {
		t.Fatalf("%s: %v", reference, err)
	}

	return descriptor
}

func TestPushKeepsDigestsAndSignatures(t *testing.T) {
	t.Parallel()

	for name, start := range map[string]func(t *testing.T) *buildertest.RegistryServer{
		"referrers":    func(t *testing.T) *buildertest.RegistryServer { return buildertest.MemoryRegistry(t, true) },
		"no referrers": func(t *testing.T) *buildertest.RegistryServer { return buildertest.MemoryRegistry(t, false) },
		"docker":       func(t *testing.T) *buildertest.RegistryServer { return buildertest.DockerRegistry(t, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			// Requests are counted at the proxy.
			proxy := buildertest.NewFaultProxy(t, start(t))
			b, policy := openSigned(t)
			client := newClient(t)

			pushed, err := b.Push(t.Context(), client, proxy.Host+"/mirror")
			if err != nil {
				t.Fatal(err)
			}

			image := b.Images()[0]
			target := proxy.Host + "/mirror/cnibake/install-cni-plugins:v1.9.1-1"

			if len(pushed) != 1 || pushed[0].Reference != target+"@"+image.Digest || pushed[0].Attachments != image.Attachments {
				t.Errorf("pushed %+v", pushed)
			}

			if got := head(t, target).Digest.String(); got != image.Digest {
				t.Errorf("the tag names %s, want %s", got, image.Digest)
			}

			repository, err := client.Repository(target)
			if err != nil {
				t.Fatal(err)
			}

			if _, err := attest.Verify(t.Context(), repository, policy); err != nil {
				t.Errorf("not verified where it was pushed to: %v", err)
			}

			// What Image Factory's copy script asks for.
			digests := []string{image.Digest}
			for _, p := range image.Platforms {
				digests = append(digests, p.Digest)
			}

			for _, digest := range digests {
				head(t, proxy.Host+"/mirror/cnibake/install-cni-plugins:"+strings.Replace(digest, ":", "-", 1)+".sig")
			}

			proxy.Clear()

			again, err := b.Push(t.Context(), client, proxy.Host+"/mirror")
			if err != nil {
				t.Fatal(err)
			}

			if again[0].Uploaded != 0 || again[0].Bytes != 0 || again[0].Reference != pushed[0].Reference {
				t.Errorf("pushed again: %+v", again)
			}

			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
				if n := proxy.Count(method, ""); n != 0 {
					t.Errorf("the second push sent %d %s requests", n, method)
				}
			}
		})
	}
}

// A push that failed half-way leaves no tag, and the next one sends only what is missing.
func TestPushIsTakenUpAgain(t *testing.T) {
	t.Parallel()

	b, policy := openSigned(t)
	client := newClient(t)
	digest := b.Images()[0].Digest
	image := b.Images()[0].Platforms[0].Digest

	for name, fault := range map[string]buildertest.Fault{
		"manifests refused":  {Method: http.MethodPut, Path: "/manifests/" + image, Do: buildertest.Busy(http.StatusForbidden, "")},
		"signatures refused": {Method: http.MethodPut, Path: ".sig", Do: buildertest.Busy(http.StatusForbidden, "")},
		"index refused":      {Method: http.MethodPut, Path: "/manifests/" + digest, Do: buildertest.Busy(http.StatusForbidden, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			registry := buildertest.DockerRegistry(t, false)
			proxy := buildertest.NewFaultProxy(t, registry, fault)
			target := registry.Host + "/cnibake/install-cni-plugins:v1.9.1-1"

			if _, err := b.Push(t.Context(), client, proxy.Host); err == nil {
				t.Fatal("the fault did nothing")
			}

			if _, err := remote.Head(parse(t, target)); err == nil {
				t.Error("the tag is there, and the push failed")
			}

			proxy.Clear()

			again, err := b.Push(t.Context(), client, proxy.Host)
			if err != nil {
				t.Fatal(err)
			}

			if got := head(t, target).Digest.String(); got != digest {
				t.Errorf("the tag names %s, want %s", got, digest)
			}

			// The layers were there before manifests were.
			if again[0].Bytes > 1_000_000 {
				t.Errorf("%d bytes were sent again", again[0].Bytes)
			}

			repository, err := client.Repository(target)
			if err != nil {
				t.Fatal(err)
			}

			if _, err := attest.Verify(t.Context(), repository, policy); err != nil {
				t.Errorf("after the second push: %v", err)
			}
		})
	}
}

func parse(t *testing.T, reference string) name.Reference {
	t.Helper()

	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}

	return ref
}

func TestTarget(t *testing.T) {
	t.Parallel()

	const image = "ghcr.io/cnibake/cni-plugins:v1.9.1-1"

	for prefix, want := range map[string]string{
		"registry.example":           "registry.example/cnibake/cni-plugins:v1.9.1-1",
		"registry.example:5000/a/b":  "registry.example:5000/a/b/cnibake/cni-plugins:v1.9.1-1",
		"localhost":                  "localhost/cnibake/cni-plugins:v1.9.1-1",
		"":                           "",
		"mirror":                     "",
		"registry.example/":          "",
		"registry.example/a:tag":     "",
		"https://registry.example":   "",
		"registry.example/UPPER":     "",
		"registry.example/a@sha256:": "",
	} {
		got, err := airgap.Target(image, prefix)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q: %v", prefix, got, err)
		}
	}
}
