package airgap_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/profiles"
)

func TestTwoBundlesAreIdentical(t *testing.T) {
	t.Parallel()

	dir := newDist(t)
	first := create(t, dir)

	if err := os.Chtimes(filepath.Join(dir, "build.json"), stamp, stamp); err != nil {
		t.Fatal(err)
	}

	if !bytes.Equal(first, create(t, dir)) {
		t.Error("two bundles of one build differ")
	}

	if !bytes.Equal(first, create(t, newDist(t))) {
		t.Error("bundles of two equal builds differ")
	}
}

// Whatever is not as the build left it is named, all of it.
func TestCreateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(t *testing.T, dir string)
		want   []string
	}{
		"file missing": {
			func(t *testing.T, dir string) { remove(t, dir, "init-container-amd64.tar") },
			[]string{"init-container-amd64.tar is missing", "build again"},
		},
		"two faults": {
			func(t *testing.T, dir string) {
				remove(t, dir, "init-container-amd64.spdx.json")
				appendTo(t, dir, "init-container-arm64.tar", "x")
			},
			[]string{"init-container-amd64.spdx.json is missing", "init-container-arm64.tar was altered"},
		},
		"blob missing": {
			func(t *testing.T, dir string) { remove(t, dir, blobOf(t, dir, "init-container")) },
			[]string{"init-container/blobs/sha256/", " is missing"},
		},
		"blob altered": {
			func(t *testing.T, dir string) { appendTo(t, dir, blobOf(t, dir, "init-container"), "x") },
			[]string{"init-container/blobs/sha256/", " was altered"},
		},
		"layout missing": {
			func(t *testing.T, dir string) {
				if err := os.RemoveAll(filepath.Join(dir, "init-container")); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"init-container/blobs/sha256/", " is missing"},
		},
		"report altered": {
			func(t *testing.T, dir string) { appendTo(t, dir, "build.json", "\n") },
			[]string{"build.json was altered"},
		},
		"a path for a name": {
			func(t *testing.T, dir string) {
				edit(t, dir, "build.json", `"init-container-amd64.tar"`, `"../init-container-amd64.tar"`)
			},
			[]string{`it lists an artifact "../init-container-amd64.tar"`, "build again"},
		},
		"no sums":   {func(t *testing.T, dir string) { remove(t, dir, "SHA256SUMS") }, []string{"SHA256SUMS"}},
		"no report": {func(t *testing.T, dir string) { remove(t, dir, "build.json") }, []string{"build.json"}},
		"image left out of the index": {
			func(t *testing.T, dir string) {
				edit(t, dir, "init-container/index.json", `"architecture": "arm64"`, `"architecture": "amd64"`)
			},
			[]string{"init-container"},
		},
		"a link": {
			func(t *testing.T, dir string) {
				remove(t, dir, "init-container-amd64.tar")

				if err := os.Symlink("/etc/passwd", filepath.Join(dir, "init-container-amd64.tar")); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"init-container-amd64.tar is not a regular file"},
		},
		"sums that leave the directory": {
			func(t *testing.T, dir string) {
				appendTo(t, dir, "SHA256SUMS", strings.Repeat("0", 64)+"  ../../etc/passwd\n")
			},
			[]string{"not a clean relative path"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := newDist(t)
			test.change(t, dir)

			_, err := airgap.Create(t.Context(), io.Discard, dir)
			if err == nil {
				t.Fatal("accepted")
			}

			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("lacks %q: %v", want, err)
				}
			}
		})
	}
}

// A build may have no image at all.
func TestBundleOfArchives(t *testing.T) {
	t.Parallel()

	dir, _ := buildertest.Build(t, map[profiles.Format]builder.Format{profiles.FormatArchive: builder.Archive{}}, []string{"generic-linux"},
		func(o *builder.Options) { o.Architectures = []string{"amd64"} })

	bundle := create(t, dir)

	b, err := open(t, bundle)
	if err != nil {
		t.Fatal(err)
	}

	if len(b.Images()) != 0 || !bytes.Contains(bundle, []byte(`"manifests": []`)) {
		t.Errorf("it has images %v", b.Images())
	}
}

// Every image needs a name of its own.
func TestCreateNeedsNames(t *testing.T) {
	t.Parallel()

	for want, change := range map[string]func(*builder.Options){
		"does not say under which name init-container is published": func(o *builder.Options) { o.Profiles[0].Image = "" },
		"gives init-container and other the same name": func(o *builder.Options) {
			other := o.Profiles[0]
			other.Name = "other"
			o.Profiles = append(o.Profiles, other)
		},
	} {
		dir, _ := buildertest.Build(t, formats, []string{"init-container"}, change)

		if _, err := airgap.Create(t.Context(), io.Discard, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestCreateTakesWhatBelongsToTheBuild(t *testing.T) {
	t.Parallel()

	dir := newDist(t)
	for _, name := range []string{"SHA256SUMS.sigstore.json", "init-container-amd64.tar.sigstore.json", "notes.txt", ".hidden"} {
		appendTo(t, dir, name, "{}\n")
	}

	var out bytes.Buffer

	created, err := airgap.Create(t.Context(), &out, dir)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff([]string{"init-container-amd64.tar.sigstore.json", "notes.txt"}, created.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}

	if created.Size != int64(out.Len()) {
		t.Errorf("size is %d, want %d", created.Size, out.Len())
	}

	entries := read(t, out.Bytes())
	for _, want := range []string{"files/SHA256SUMS.sigstore.json", "files/init-container-amd64.tar"} {
		index(t, entries, func(name string) bool { return name == want })
	}

	b, err := open(t, out.Bytes())
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(created.Images, b.Images()); diff != "" {
		t.Errorf("images read (-created +read):\n%s", diff)
	}
}
