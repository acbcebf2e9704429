package catalog_test

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"gopkg.in/yaml.v3"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/extension/catalog"
	"github.com/cnibake/cnibake/profiles"
)

const (
	talos   = "v1.13.9"
	ourName = "ghcr.io/cnibake/cni-plugins:v1.9.1-1"
)

func packer(t *testing.T) *oci.Packer {
	t.Helper()

	return oci.NewPacker(builder.FileCache{Cache: buildertest.Cache(t)}, 1)
}

// realExtension returns a real extension as it was built.
func realExtension(t *testing.T) oci.Store {
	t.Helper()

	dir, _ := buildertest.Build(t, map[profiles.Format]builder.Format{profiles.FormatTalosExtension: extension.Format{}}, []string{"talos"}, nil)

	return layout(t, filepath.Join(dir, "talos"))
}

func layout(t *testing.T, dir string) oci.Store {
	t.Helper()

	store, err := oci.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}

	return store
}

func write(t *testing.T, c *catalog.Catalogue, created time.Time) oci.Store {
	t.Helper()

	dir := filepath.Join(t.TempDir(), talos)
	if err := c.Write(t.Context(), packer(t), dir, talos, created); err != nil {
		t.Fatal(err)
	}

	return layout(t, dir)
}

// asFactory pushes an image, asks for the tag as Image Factory does and reads the two files the way
// it reads them: for amd64, from the flattened file system, descriptions keyed by the whole line.
func asFactory(t *testing.T, store oci.Store) map[string]catalog.Entry {
	t.Helper()

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	reference := strings.TrimPrefix(server.URL, "http://") + "/siderolabs/extensions:" + talos

	repository, err := client.Repository(reference)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := oci.Copy(t.Context(), store, repository); err != nil {
		t.Fatal(err)
	}

	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}

	head, err := remote.Head(tag)
	if err != nil {
		t.Fatal(err)
	}

	image, err := remote.Image(tag.Digest(head.Digest.String()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		t.Fatal(err)
	}

	var (
		lines        []string
		descriptions map[string]struct{ Author, Description string }
	)

	content := mutate.Extract(image)
	defer content.Close()

	for archive := tar.NewReader(content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			t.Fatal(err)
		}

		switch h.Name {
		case "image-digests":
			for scanner := bufio.NewScanner(archive); scanner.Scan(); {
				lines = append(lines, strings.TrimSpace(scanner.Text()))
			}
		case "descriptions.yaml":
			if err := yaml.NewDecoder(archive).Decode(&descriptions); err != nil {
				t.Fatal(err)
			}
		}
	}

	found := make(map[string]catalog.Entry)

	for _, line := range lines {
		tagged, _, _ := strings.Cut(line, "@")

		ref, err := name.NewTag(tagged)
		if err != nil {
			t.Fatal(err)
		}

		found[ref.RepositoryStr()] = catalog.Entry{Line: line, Author: descriptions[line].Author, Description: descriptions[line].Description}
	}

	return found
}

func TestFactoryFindsTheExtension(t *testing.T) {
	t.Parallel()

	ours, err := catalog.Describe(t.Context(), realExtension(t), ourName)
	if err != nil {
		t.Fatal(err)
	}

	if !strings.HasPrefix(ours.Line, ourName+"@sha256:") || ours.Author != "cnibake" || !strings.Contains(ours.Description, "bridge") {
		t.Errorf("described as %+v", ours.Entry)
	}

	alone := &catalog.Catalogue{}
	merged := catalog.New([]byte(gvisor+"\n"+zfs+"\n"), []byte(officialText))

	for name, test := range map[string]struct {
		catalogue *catalog.Catalogue
		want      []string
	}{
		"alone":  {alone, []string{"cnibake/cni-plugins"}},
		"merged": {merged, []string{"siderolabs/gvisor", "siderolabs/zfs", "cnibake/cni-plugins"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if err := test.catalogue.Add(ours.Entry); err != nil {
				t.Fatal(err)
			}

			store := write(t, test.catalogue, time.Unix(0, 0))
			found := asFactory(t, store)

			entries, err := test.catalogue.Entries()
			if err != nil {
				t.Fatal(err)
			}

			want := make(map[string]catalog.Entry)
			for i, name := range test.want {
				want[name] = entries[i]
			}

			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("Factory finds (-want +got):\n%s", diff)
			}

			if found["cnibake/cni-plugins"] != ours.Entry {
				t.Errorf("our entry is %+v", found["cnibake/cni-plugins"])
			}

			back, err := catalog.Read(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}

			if again, err := back.Entries(); err != nil || cmp.Diff(entries, again) != "" {
				t.Errorf("read back: %v %v", again, err)
			}
		})
	}
}

func TestSameCatalogueSameBytes(t *testing.T) {
	t.Parallel()

	digest := func(created time.Time) string {
		c := catalog.New([]byte(gvisor+"\n"), []byte(officialText))

		subjects, err := write(t, c, created).Subjects(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		return subjects[0].Descriptor.Digest.String()
	}

	first := digest(time.Unix(0, 0))
	if second := digest(time.Unix(0, 0)); second != first {
		t.Errorf("%s and %s", first, second)
	}

	if other := digest(time.Unix(1, 0)); other == first {
		t.Error("the time is not in the image")
	}
}

func TestCheckTalos(t *testing.T) {
	t.Parallel()

	ours, err := catalog.Describe(t.Context(), realExtension(t), ourName)
	if err != nil {
		t.Fatal(err)
	}

	for version, want := range map[string]string{
		"v1.13.9": "", "v1.14.0": "", "v1.13.0-beta.0": "",
		"v1.12.3": "can't be satisfied", "latest": "not a release such as",
		"1.13.9": "not a release", "../v1.13.9": "not a release", "v1.13": "not a release", "v1.13.09": "Patch",
	} {
		if err := ours.CheckTalos(version); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()

	real := realExtension(t)
	empty := write(t, catalog.New([]byte("\n"), nil), time.Unix(0, 0))

	if _, err := catalog.Read(t.Context(), real); err == nil || !strings.Contains(err.Error(), "it is not an extension catalogue") {
		t.Errorf("an extension read as catalogue: %v", err)
	}

	if _, err := catalog.Describe(t.Context(), empty, ourName); err == nil || !strings.Contains(err.Error(), "it is not a Talos extension") {
		t.Errorf("a catalogue read as extension: %v", err)
	}

	for _, name := range []string{"", "ghcr.io/cnibake/cni-plugins", "cni-plugins:v1", "ghcr.io/UPPER/x:v1", ourName + "@sha256:12"} {
		if _, err := catalog.Describe(t.Context(), real, name); err == nil {
			t.Errorf("named %q: accepted", name)
		}
	}

	if err := (&catalog.Catalogue{}).Write(t.Context(), packer(t), os.DevNull, talos, time.Unix(0, 0)); err == nil {
		t.Error("written over a file")
	}
}
