package cluster

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/hack/kubernetes/dist"
)

// artifacts are what a user has: cnibake, the installer, and images of two releases of the plugins.
type artifacts struct {
	cnibake, installer string
	older, current     payload
	// olderPin is the pin of the older one.
	olderPin string
}

// payload is an image with plugins, and their digests.
type payload struct {
	version, archive string
	plugins          map[string]string
}

// The version before ours that testdata has a pin of, written by hack/pin.
const olderVersion = "v1.8.0"

const repository = "ghcr.io/cnibake/install-cni-plugins"

func newArtifacts(t *testing.T) *artifacts {
	t.Helper()

	pin, err := filepath.Abs("testdata/" + olderVersion + ".yaml")
	if err != nil {
		t.Fatal(err)
	}

	a := &artifacts{cnibake: dist.Cnibake(t), installer: dist.Installer(t), olderPin: pin}
	a.older = newPayload(t, dist.Build(t, a.cnibake, "--pin", pin, "init-container"))
	a.current = newPayload(t, dist.Build(t, a.cnibake, "init-container"))

	if a.older.version == a.current.version {
		t.Fatalf("both releases are %s", a.older.version)
	}

	return a
}

func newPayload(t *testing.T, out string) payload {
	t.Helper()

	return payload{
		version: dist.Version(t, out), archive: filepath.Join(out, "init-container-"+runtime.GOARCH+".tar"),
		plugins: dist.Plugins(t, out, "init-container"),
	}
}

// load imports the image and returns its reference with the digest, under which a node that has pulled
// it would know it.
func (p payload) load(t *testing.T, c *Cluster) string {
	t.Helper()
	c.Import(t, p.archive)

	tag := repository + ":" + p.version

	for line := range strings.Lines(c.Run(t, "ctr", "--namespace=k8s.io", "images", "list", "name=="+tag)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == tag {
			reference := repository + "@" + fields[2]
			c.Run(t, "ctr", "--namespace=k8s.io", "images", "tag", "--force", tag, reference)

			return reference
		}
	}

	t.Fatalf("%s is not there after it was imported", tag)

	return ""
}

// expectStaged checks that a directory of the node holds the plugins of a payload, bit for bit.
func (p payload) expectStaged(t *testing.T, c *Cluster, dir string) {
	t.Helper()

	found := c.listing(t, dir)
	for name, digest := range p.plugins {
		if want := "regular-file,755 " + strings.TrimPrefix(digest, "sha256:"); found[name] != want {
			t.Errorf("%s is %q, want %q of %s", name, found[name], want, p.version)
		}
	}
}
