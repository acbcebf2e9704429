package oci_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// A push ends well in spite of these, each met twice.
var passing = map[string]buildertest.Fault{
	"busy at the start":         {Method: "GET", Path: "/v2/", Do: buildertest.Busy(503, "")},
	"busy when asked for blobs": {Method: "HEAD", Path: "/blobs/", Do: buildertest.Busy(429, "0")},
	"busy when a blob begins":   {Method: "POST", Path: "/blobs/uploads/", Do: buildertest.Busy(500, "")},
	"busy in a blob":            {Method: "PATCH", Do: buildertest.Busy(502, "")},
	"busy when a blob ends":     {Method: "PUT", Path: "/blobs/uploads/", Do: buildertest.Busy(504, "")},
	"busy with a manifest":      {Method: "PUT", Path: "/manifests/", Do: buildertest.Busy(408, "")},
	"busy with the tag":         {Method: "PUT", Path: "/manifests/v1", Do: buildertest.Busy(503, "0")},
	"dropped at the first byte": {Method: "PATCH", Do: buildertest.DropUpload(0)},
	"dropped in a blob":         {Method: "PATCH", Do: buildertest.DropUpload(layerSize / 2)},
	"dropped after a blob":      {Method: "PATCH", Do: buildertest.DropAnswer()},
	"dropped at its beginning":  {Method: "POST", Path: "/blobs/uploads/", Do: buildertest.DropAnswer()},
	"dropped at its end":        {Method: "PUT", Path: "/blobs/uploads/", Do: buildertest.DropAnswer()},
	"dropped after a manifest":  {Method: "PUT", Path: "/manifests/sha256", Do: buildertest.DropAnswer()},
	"dropped after the tag":     {Method: "PUT", Path: "/manifests/v1", Do: buildertest.DropAnswer()},
	"altered on the way":        {Method: "PATCH", Do: buildertest.CorruptUpload()},
	"stalled":                   {Method: "PATCH", Do: buildertest.Stall()},
}

// plainRegistries are those that a proxy can stand before. The library's keeps blobs of all
// repositories together, so it has to be another one each time; the other takes a while to start.
func plainRegistries(t *testing.T) map[string]func(testing.TB) *buildertest.RegistryServer {
	t.Helper()

	docker := buildertest.DockerRegistry(t, false)

	return map[string]func(testing.TB) *buildertest.RegistryServer{
		"memory":          func(t testing.TB) *buildertest.RegistryServer { return buildertest.MemoryRegistry(t, true) },
		"docker-registry": func(testing.TB) *buildertest.RegistryServer { return docker },
	}
}

// repositoryName makes a repository's name of a test's.
func repositoryName(t *testing.T) string {
	t.Helper()

	return "/" + strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9/]+`).ReplaceAllString(t.Name(), "-")) + ":v1"
}

// patience shortens the time after which a connection counts as stalled, where one will be.
func patience(name string) []oci.ClientOption {
	if name != "stalled" {
		return nil
	}

	return []oci.ClientOption{oci.WithStallTimeout(2 * time.Second)}
}

func TestPushRecovers(t *testing.T) {
	t.Parallel()

	from := openLayout(t, flatLayout(t))
	attachAll(t, from)

	for kind, start := range plainRegistries(t) {
		for name, fault := range passing {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()

				server := start(t)
				fault.Times = 2
				proxy := buildertest.NewFaultProxy(t, server, fault)
				client := newClient(t, server, patience(name)...)

				if _, err := oci.Copy(t.Context(), from, repository(t, client, proxy.Host+repositoryName(t))); err != nil {
					t.Fatal(err)
				}

				if proxy.Spoiled() != 2 {
					t.Errorf("%d requests were spoiled", proxy.Spoiled())
				}

				to := repository(t, client, server.Host+repositoryName(t))
				if diff := cmp.Diff(append(digests(t, from), attached(t, from)...), append(digests(t, to), attached(t, to)...)); diff != "" {
					t.Errorf("pushed (-from +to):\n%s", diff)
				}
			})
		}
	}
}

// A push fails because of these, and says why.
var lasting = map[string]struct {
	fault buildertest.Fault
	want  string
}{
	"busy":                  {buildertest.Fault{Method: "PATCH", Do: buildertest.Busy(503, "")}, "503 Service Unavailable (tried 4 times)"},
	"busy for an hour":      {buildertest.Fault{Method: "POST", Do: buildertest.Busy(429, "3600")}, "429 Too Many Requests and asks to come back in 1h0m0s"},
	"dropped":               {buildertest.Fault{Method: "PATCH", Do: buildertest.DropUpload(10)}, "(tried 4 times)"},
	"altered":               {buildertest.Fault{Method: "PATCH", Do: buildertest.CorruptUpload()}, "digest"},
	"not allowed":           {buildertest.Fault{Method: "PUT", Path: "/manifests/sha256", Do: buildertest.Busy(403, "")}, "does not allow it with these credentials"},
	"unauthorized":          {buildertest.Fault{Method: "POST", Do: buildertest.Busy(401, "")}, "wants other credentials"},
	"no room for the tag":   {buildertest.Fault{Method: "PUT", Path: "/manifests/v1", Do: buildertest.Busy(507, "")}, "507 Insufficient Storage (tried 4 times)"},
	"dropped at the tag":    {buildertest.Fault{Method: "PUT", Path: "/manifests/v1", Do: buildertest.DropUpload(0)}, "(tried 4 times)"},
	"not a registry":        {buildertest.Fault{Path: "/v2/", Do: buildertest.Busy(404, "")}, "no registry (404"},
	"attachments forbidden": {buildertest.Fault{Method: "PUT", Path: ".sig", Do: buildertest.Busy(403, "")}, "attaching to"},
}

func TestNothingHalfPublished(t *testing.T) {
	t.Parallel()

	from := openLayout(t, flatLayout(t))
	attachAll(t, from)

	other := openLayout(t, writeLayout(t, largeImage(t, "arm")))
	server := buildertest.DockerRegistry(t, false)

	for name, test := range lasting {
		for _, tagged := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", tagged before: ", tagged), func(t *testing.T) {
				t.Parallel()

				proxy := buildertest.NewFaultProxy(t, server, test.fault)
				client := newClient(t, server)
				direct, spoiled := repository(t, client, server.Host+repositoryName(t)), repository(t, client, proxy.Host+repositoryName(t))

				if tagged {
					if _, err := oci.Copy(t.Context(), other, direct); err != nil {
						t.Fatal(err)
					}
				}

				_, err := oci.Copy(t.Context(), from, spoiled)
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.want)) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error is %v, want %q", err, test.want)
				}

				switch digest, err := direct.Digest(t.Context()); {
				case tagged && (err != nil || digest != subjects(t, other)[0].Descriptor.Digest):
					t.Errorf("the tag names %s: %v", digest, err)
				case !tagged && !errors.Is(err, oci.ErrNotFound):
					t.Errorf("the tag names %s: %v", digest, err)
				}

				// The next push finishes it, and sends only what is missing.
				sent := proxy.Count("PUT", "/blobs/uploads/")
				proxy.Clear()

				if _, err := oci.Copy(t.Context(), from, spoiled); err != nil {
					t.Fatal(err)
				}

				if again := proxy.Count("PUT", "/blobs/uploads/"); name == "no room for the tag" && (again != 0 || sent == 0) {
					t.Errorf("%d blobs were sent, then %d", sent, again)
				}

				if diff := cmp.Diff(append(digests(t, from), attached(t, from)...), append(digests(t, direct), attached(t, direct)...)); diff != "" {
					t.Errorf("pushed (-from +to):\n%s", diff)
				}
			})
		}
	}
}

func TestInterruptedPush(t *testing.T) {
	t.Parallel()

	server := buildertest.DockerRegistry(t, false)

	from := openLayout(t, flatLayout(t))
	attachAll(t, from)

	for name, fault := range map[string]buildertest.Fault{
		"in a blob":      {Method: "PATCH"},
		"at a manifest":  {Method: "PUT", Path: "/manifests/sha256:"},
		"at a signature": {Method: "PUT", Path: ".sig"},
		"while waiting":  {Method: "POST", Do: buildertest.Busy(503, "60")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ctx, cancel := context.WithCancel(t.Context())
			then := buildertest.Stall()

			if fault.Do != nil {
				then = fault.Do
			}

			fault.Do = func(w http.ResponseWriter, r *http.Request, registry http.Handler) {
				cancel()
				then(w, r, registry)
			}

			proxy := buildertest.NewFaultProxy(t, server, fault)
			client := newClient(t, server)

			if _, err := oci.Copy(ctx, from, repository(t, client, proxy.Host+repositoryName(t))); !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v", err)
			}

			if digest, err := repository(t, client, server.Host+repositoryName(t)).Digest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("the tag names %s: %v", digest, err)
			}
		})
	}
}

func TestPullFaults(t *testing.T) {
	t.Parallel()

	const twice = 2

	from := openLayout(t, flatLayout(t))

	for kind, start := range plainRegistries(t) {
		for name, test := range map[string]struct {
			fault buildertest.Fault
			want  string
		}{
			"dropped at once":      {buildertest.Fault{Path: "/blobs/", Times: twice, Do: buildertest.DropDownload(0)}, ""},
			"dropped early":        {buildertest.Fault{Path: "/blobs/", Times: twice, Do: buildertest.DropDownload(100)}, ""},
			"dropped late":         {buildertest.Fault{Path: "/blobs/", Times: twice, Do: buildertest.DropDownload(layerSize / 2)}, ""},
			"dropped at manifests": {buildertest.Fault{Path: "/manifests/", Times: twice, Do: buildertest.DropDownload(10)}, ""},
			"busy":                 {buildertest.Fault{Path: "/blobs/", Times: twice, Do: buildertest.Busy(429, "0")}, ""},
			"stalled":              {buildertest.Fault{Path: "/blobs/", Times: twice, Do: buildertest.Stall()}, ""},
			"always dropped":       {buildertest.Fault{Path: "/blobs/", Do: buildertest.DropDownload(100)}, "(tried 4 times)"},
			"truncated":            {buildertest.Fault{Path: "/blobs/", Do: buildertest.Truncate()}, "does not match expected size"},
			"altered":              {buildertest.Fault{Path: "/blobs/", Do: buildertest.Corrupt()}, "error verifying sha256 checksum"},
			"manifest altered":     {buildertest.Fault{Path: "/manifests/sha256:", Do: buildertest.Corrupt()}, "digest"},
			"manifest truncated":   {buildertest.Fault{Path: "/manifests/sha256:", Do: buildertest.Truncate()}, "digest"},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()

				server := start(t)
				client := newClient(t, server, patience(name)...)

				if _, err := oci.Copy(t.Context(), from, repository(t, client, server.Host+repositoryName(t))); err != nil {
					t.Fatal(err)
				}

				proxy := buildertest.NewFaultProxy(t, server, test.fault)

				err := pullAll(t.Context(), repository(t, client, proxy.Host+repositoryName(t)))
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error is %v, want %q", err, test.want)
				}

				if proxy.Spoiled() < twice && test.want == "" {
					t.Errorf("%d requests were spoiled", proxy.Spoiled())
				}
			})
		}
	}
}

func pullAll(ctx context.Context, from *oci.Repository) error {
	all, err := from.Subjects(ctx)
	if err != nil {
		return err
	}

	for _, subject := range all {
		if subject.Image != nil {
			if err := readImage(subject.Image); err != nil {
				return err
			}
		}
	}

	return nil
}
