package oci_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// registries are all kinds that the tests know.
var registries = map[string]func(testing.TB) *buildertest.RegistryServer{
	"memory with referrers":    func(t testing.TB) *buildertest.RegistryServer { return buildertest.MemoryRegistry(t, true) },
	"memory without referrers": func(t testing.TB) *buildertest.RegistryServer { return buildertest.MemoryRegistry(t, false) },
	"docker-registry":          func(t testing.TB) *buildertest.RegistryServer { return buildertest.DockerRegistry(t, false) },
	"docker-registry with TLS": func(t testing.TB) *buildertest.RegistryServer { return buildertest.DockerRegistry(t, true) },
}

// newClient is a client that knows the registry's authority and credentials, and is impatient.
func newClient(t *testing.T, server *buildertest.RegistryServer, options ...oci.ClientOption) *oci.Client {
	t.Helper()

	all := []oci.ClientOption{oci.WithRetries(4, time.Millisecond)}

	if server.CAFile != "" {
		certificate, err := os.ReadFile(server.CAFile)
		if err != nil {
			t.Fatal(err)
		}

		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificate)

		all = append(all, oci.WithRootCAs(roots), oci.WithKeychain(oneLogin{server}))
	}

	client, err := oci.NewClient(append(all, options...)...)
	if err != nil {
		t.Fatal(err)
	}

	return client
}

// oneLogin is a keychain for one registry.
type oneLogin struct{ *buildertest.RegistryServer }

func (l oneLogin) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	if resource.RegistryStr() != l.Host {
		return authn.Anonymous, nil
	}

	return &authn.Basic{Username: l.Username, Password: l.Password}, nil
}

func repository(t *testing.T, client *oci.Client, reference string) *oci.Repository {
	t.Helper()

	r, err := client.Repository(reference)
	if err != nil {
		t.Fatal(err)
	}

	return r
}

func TestCopyKeepsEverything(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	flat := openLayout(t, dir)
	attachAll(t, flat)

	nested := openLayout(t, save(t, appended(empty.Index, subjects(t, flat)[0].Index)))
	attachAll(t, nested)

	single := openLayout(t, dir, oci.WithName("v1.9.1-1-arm64"))

	deep := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: subjects(t, flat)[0].Index}, mutate.IndexAddendum{Add: largeImage(t, "arm").Image})

	for kind, start := range registries {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			server := start(t)
			client := newClient(t, server)

			for name, from := range map[string]*oci.Layout{
				"flat": flat, "nested": nested, "single": single, "deep": openLayout(t, save(t, appended(empty.Index, deep))),
			} {
				to := repository(t, client, server.Host+"/test/"+name+":v1")

				if _, err := to.Digest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
					t.Fatalf("%s: before: %v", name, err)
				}

				first, err := oci.Copy(t.Context(), from, to, oci.IfAbsent())
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}

				if digest, err := to.Digest(t.Context()); err != nil || digest != first.Digest || digest != subjects(t, from)[0].Descriptor.Digest {
					t.Errorf("%s: the tag names %s, pushed was %s: %v", name, digest, first.Digest, err)
				}

				if diff := cmp.Diff(digests(t, from), digests(t, to)); diff != "" {
					t.Errorf("%s: images (-from +to):\n%s", name, diff)
				}

				if diff := cmp.Diff(attached(t, from), attached(t, to)); diff != "" {
					t.Errorf("%s: attachments (-from +to):\n%s", name, diff)
				}

				for _, subject := range subjects(t, to) {
					if subject.Image != nil {
						if err := readImage(subject.Image); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				}

				again, err := oci.Copy(t.Context(), from, to, oci.IfAbsent())
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}

				want := oci.Copied{Digest: first.Digest, Present: first.Uploaded + first.Present, Attachments: first.Attachments}
				if diff := cmp.Diff(want, again); diff != "" {
					t.Errorf("%s: second time (-want +got):\n%s", name, diff)
				}
			}

			// Between repositories of one registry, and by digest.
			from := repository(t, client, server.Host+"/test/flat@"+subjects(t, flat)[0].Descriptor.Digest.String())
			to := repository(t, client, server.Host+"/copied/flat:v2")

			if _, err := oci.Copy(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(append(digests(t, flat), attached(t, flat)...), append(digests(t, to), attached(t, to)...)); diff != "" {
				t.Errorf("copy of the copy (-from +to):\n%s", diff)
			}
		})
	}
}

func TestIfAbsent(t *testing.T) {
	t.Parallel()

	server := buildertest.MemoryRegistry(t, true)
	client := newClient(t, server)
	to := repository(t, client, server.Host+"/test:v1")

	mine := openLayout(t, writeLayout(t, largeImage(t, "amd64")))
	other := openLayout(t, writeLayout(t, largeImage(t, "arm64")))

	first, err := oci.Copy(t.Context(), other, to)
	if err != nil {
		t.Fatal(err)
	}

	want := subjects(t, mine)[0].Descriptor.Digest

	var taken *oci.TakenError
	if _, err := oci.Copy(t.Context(), mine, to, oci.IfAbsent()); !errors.As(err, &taken) || taken.Has != first.Digest || taken.Want != want {
		t.Errorf("error is %v", err)
	}

	if _, err := repository(t, client, server.Host+"/test@"+want.String()).Digest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("refused, but the index is there: %v", err)
	}

	// Somebody takes the tag while we push.
	race := repository(t, client, server.Host+"/test:race")
	overtaken := overtaking{mine, func() {
		if _, err := oci.Copy(t.Context(), other, race); err != nil {
			t.Error(err)
		}
	}}

	if _, err := oci.Copy(t.Context(), overtaken, race, oci.IfAbsent()); !errors.As(err, &taken) || taken.Has != first.Digest || taken.Want != want {
		t.Errorf("error is %v", err)
	}

	if got, err := race.Digest(t.Context()); err != nil || got != first.Digest {
		t.Errorf("the tag names %s: %v", got, err)
	}

	// Without the flag it moves.
	if _, err := oci.Copy(t.Context(), mine, race); err != nil {
		t.Error(err)
	}

	if got, err := race.Digest(t.Context()); err != nil || got != want {
		t.Errorf("the tag names %s: %v", got, err)
	}

	wrong := repository(t, client, server.Host+"/test@"+first.Digest.String())
	if _, err := oci.Copy(t.Context(), mine, wrong); err == nil || !strings.Contains(err.Error(), "not that of what is pushed") {
		t.Errorf("error is %v", err)
	}
}

// overtaking calls somebody else when the images have been pushed.
type overtaking struct {
	*oci.Layout
	call func()
}

func (o overtaking) Attachments(ctx context.Context, subject v1.Hash) ([]oci.Attachment, error) {
	o.call()

	return o.Layout.Attachments(ctx, subject)
}

// What was altered on the disk is named, and neither tagged nor left half there.
func TestAlteredLayoutIsNotPushed(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	attachAll(t, openLayout(t, dir))

	server := buildertest.DockerRegistry(t, false)
	client := newClient(t, server)

	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 20 {
		t.Fatalf("blobs are %q: %v", blobs, err)
	}

	for i, blob := range blobs {
		data, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}

		to := repository(t, client, fmt.Sprintf("%s/altered/%d:v1", server.Host, i))

		for what, write := range map[string]func() error{
			"altered": func() error { return os.WriteFile(blob, flipped(data), 0o644) },
			"missing": func() error { return os.Remove(blob) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}

			from, err := oci.OpenLayout(dir)
			if err == nil {
				_, err = oci.Copy(t.Context(), from, to)
			}

			if err == nil || !strings.Contains(err.Error(), filepath.Base(blob)) {
				t.Errorf("%s %s: error is %v", what, filepath.Base(blob), err)
			}

			if _, err := to.Digest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("%s %s: the tag is there: %v", what, filepath.Base(blob), err)
			}
		}

		if err := os.WriteFile(blob, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Blobs of one repository are not sent to another one of the same registry.
func TestCopyMounts(t *testing.T) {
	t.Parallel()

	server := buildertest.DockerRegistry(t, false)
	proxy := buildertest.NewFaultProxy(t, server)
	client := newClient(t, server)
	from := repository(t, client, proxy.Host+"/from:v1")

	if _, err := oci.Copy(t.Context(), openLayout(t, flatLayout(t)), from); err != nil {
		t.Fatal(err)
	}

	proxy.Clear()

	if _, err := oci.Copy(t.Context(), from, repository(t, client, proxy.Host+"/to:v1")); err != nil {
		t.Fatal(err)
	}

	if n := proxy.Count("PATCH", ""); n != 0 {
		t.Errorf("%d blobs were sent", n)
	}
}

func TestProgressCountsEachByteOnce(t *testing.T) {
	t.Parallel()

	server := buildertest.DockerRegistry(t, false)
	proxy := buildertest.NewFaultProxy(t, server, buildertest.Fault{Method: "PATCH", Times: 2, Do: buildertest.DropUpload(100)})

	var total int64

	bar := &counter{}

	copied, err := oci.Copy(t.Context(), openLayout(t, flatLayout(t)), repository(t, newClient(t, server), proxy.Host+"/test:v1"),
		oci.WithProgress(func(_ string, n int64) io.WriteCloser { total += n; return bar }))
	if err != nil {
		t.Fatal(err)
	}

	if total != bar.bytes || total != copied.Bytes || total == 0 {
		t.Errorf("shown are %d of %d bytes, sent were %d", bar.bytes, total, copied.Bytes)
	}
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) { c.bytes += int64(len(p)); return len(p), nil }
func (c *counter) Close() error                { return nil }

func TestAttachToRepository(t *testing.T) {
	t.Parallel()

	for kind, start := range registries {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			server := start(t)
			to := repository(t, newClient(t, server), server.Host+"/test:v1")
			from := openLayout(t, flatLayout(t))

			if _, err := oci.Copy(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}

			attachAll(t, to)
			once := attached(t, to)
			attachAll(t, to)

			if diff := cmp.Diff(once, attached(t, to)); diff != "" || len(once) != 9 {
				t.Errorf("%d attachments; again (-once +twice):\n%s", len(once), diff)
			}

			root := subjects(t, to)[0].Descriptor

			if err := to.Attach(t.Context(), signature(t, root.Digest, "signed anew")); err != nil {
				t.Fatal(err)
			}

			if now := attached(t, to); len(now) != 9 || now[0] == once[0] {
				t.Errorf("attachments are %q", now)
			}

			// The other way round: what a registry has goes into a layout.
			for _, subject := range subjects(t, to) {
				attachments, err := to.Attachments(t.Context(), subject.Descriptor.Digest)
				if err != nil {
					t.Fatal(err)
				}

				if err := from.Attach(t.Context(), attachments...); err != nil {
					t.Fatal(err)
				}
			}

			if diff := cmp.Diff(attached(t, to), attached(t, from)); diff != "" {
				t.Errorf("taken into the layout (-registry +layout):\n%s", diff)
			}

			wrong := signature(t, root.Digest, "x")
			wrong.Subject = sha([]byte("stranger"))

			if err := to.Attach(t.Context(), wrong); err == nil {
				t.Error("attached what nobody would find")
			}
		})
	}
}
