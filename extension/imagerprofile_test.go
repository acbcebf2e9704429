package extension_test

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension"
)

var update = flag.Bool("update", false, "write the golden files anew")

const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// pinned is an extension in a registry.
var pinned = extension.ImagerAsset{ImageRef: "registry.example:5000/cni-plugins:v1.9.1-1" + digest}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()

	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

func TestNewImagerProfiles(t *testing.T) {
	t.Parallel()

	for _, p := range []extension.ImagerProfile{
		{Kind: "installer", Arch: "amd64", Extensions: []extension.ImagerAsset{pinned}},
		{Kind: "installer", Arch: "arm64", SecureBoot: true, Extensions: []extension.ImagerAsset{pinned}},
		{Kind: "iso", Arch: "amd64", Extensions: []extension.ImagerAsset{{OCIPath: "/ext/talos"}}},
		{Kind: "iso", Arch: "amd64", SecureBoot: true, Extensions: []extension.ImagerAsset{{OCIPath: "/ext/talos"}}},
		{Kind: "metal", Arch: "arm64", Extensions: []extension.ImagerAsset{{TarballPath: "/ext/talos-arm64.tar"}}},
		{Kind: "metal", Arch: "amd64", SecureBoot: true, Extensions: []extension.ImagerAsset{pinned}},
		{Kind: "nocloud", Arch: "amd64", Extensions: []extension.ImagerAsset{pinned, {OCIPath: "/ext/other"}}},
		{Kind: "uki", Arch: "amd64", Extensions: []extension.ImagerAsset{pinned}},
		{Kind: "initramfs", Arch: "amd64", Extensions: []extension.ImagerAsset{pinned}},
	} {
		file := p.Kind + "-" + p.Arch
		if p.SecureBoot {
			file += "-secureboot"
		}

		t.Run(file, func(t *testing.T) {
			t.Parallel()

			p.Talos = "v1.13.9"

			out, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}

			golden(t, filepath.Join("testdata", "imager", "new", file+".yaml"), out)
		})
	}
}

func TestImagerProfilesThatCannotBe(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		profile extension.ImagerProfile
		want    string
	}{
		{extension.ImagerProfile{Talos: "v1.13.9", Kind: "floppy", Arch: "amd64"}, `kind "floppy" is none of installer, iso, metal, nocloud, uki, initramfs`},
		{extension.ImagerProfile{Talos: "1.13", Kind: "iso", Arch: "amd64"}, `parsing Talos release "1.13": No Major.Minor.Patch elements found: give one such as v1.13.9`},
		{extension.ImagerProfile{Talos: "v1.13.9", Kind: "iso", Arch: "s390x"}, `architecture "s390x" is none of amd64, arm64`},
		{extension.ImagerProfile{Talos: "v1.13.9", Kind: "initramfs", Arch: "amd64", SecureBoot: true}, `the imager makes no secure boot variant of initramfs`},
		{extension.ImagerProfile{Talos: "v1.4.0", Kind: "iso", Arch: "amd64", SecureBoot: true}, `secure boot is not in Talos v1.4.0 yet`},
	} {
		if _, err := tt.profile.Encode(); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

func TestAddToImagerProfile(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join("testdata", "imager", "edit", "*.in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}

	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()

			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			out, err := extension.AddToImagerProfile(in, pinned)
			if err != nil {
				t.Fatal(err)
			}

			golden(t, strings.Replace(file, ".in.", ".out.", 1), out)

			again, err := extension.AddToImagerProfile(out, pinned)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(string(out), string(again)); diff != "" {
				t.Errorf("adding it twice: %s", diff)
			}
		})
	}
}

func TestProfilesThatAreNotEdited(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"":                                 "adding to the profile: EOF",
		"- a":                              "adding to the profile: line 1: a profile is a mapping",
		"input: text":                      "adding to the profile: line 1: input is not a mapping",
		"input: [":                         "adding to the profile: line 1: did not find expected node content",
		"input:\n  systemExtensions: text": "adding to the profile: line 2: systemExtensions is not a list",
		"x: &x [{imageRef: a}]\ninput:\n  systemExtensions: *x": "adding to the profile: line 3: systemExtensions is *x: add the extension where that anchor stands",
		"input: &x\n  <<: *x": "adding to the profile: its style is beyond what can be edited safely (yaml: anchor 'x' value contains itself): write input.systemExtensions as a plain list",
		"x: &x {systemExtensions: [{imageRef: a}]}\ninput:\n  <<: *x":                            "adding to the profile: line 3: systemExtensions is merged in from an anchor: write it out here",
		"input:\n  systemExtensions:\n  - imageRef: >-\n      registry.example:5000/cni-plugins": `adding to the profile: line 3: replace "registry.example:5000/cni-plugins" yourself: its style is not one that can be edited`,
	} {
		if _, err := extension.AddToImagerProfile([]byte(text), pinned); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzAddToImagerProfile(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "imager", "edit", "*.in.yaml"))
	if err != nil {
		f.Fatal(err)
	}

	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}

		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := extension.AddToImagerProfile(text, pinned)
		if err != nil {
			return
		}

		again, err := extension.AddToImagerProfile(out, pinned)
		if err != nil {
			t.Fatalf("%q became %q, which cannot be edited: %v", text, out, err)
		}

		if string(again) != string(out) {
			t.Fatalf("%q became %q, then %q", text, out, again)
		}
	})
}

func TestFindImagerAsset(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()

	ociDir := filepath.Join(dir, "layout")
	if _, err := layout.Write(ociDir, empty.Index); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(registry.New(registry.Logger(discardLogger())))
	defer server.Close()

	reference := strings.TrimPrefix(server.URL, "http://") + "/ext:v1"

	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}

	if err := remote.WriteIndex(tag, empty.Index); err != nil {
		t.Fatal(err)
	}

	hash, err := empty.Index.Digest()
	if err != nil {
		t.Fatal(err)
	}

	extensionTar := writeTar(t, dir, "ext.tar", "manifest.yaml", false)

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		argument string
		want     extension.ImagerAsset
		err      string
	}{
		{argument: ociDir, want: extension.ImagerAsset{OCIPath: ociDir}},
		{argument: extensionTar, want: extension.ImagerAsset{TarballPath: extensionTar}},
		{argument: reference, want: extension.ImagerAsset{ImageRef: reference + "@" + hash.String()}},
		// A reference with a digest needs no network.
		{argument: pinned.ImageRef, want: pinned},
		{argument: dir, err: "is not an OCI layout"},
		{argument: writeTar(t, dir, "ext.tar.gz", "manifest.yaml", true), err: "is compressed with gzip"},
		{argument: writeTar(t, dir, "archive.tar", "oci-layout", false), err: "is an archive of an OCI layout"},
		{argument: writeTar(t, dir, "other.tar", "README", false), err: "has no manifest.yaml"},
		{argument: "dist/nothing", err: "no such file or directory"},
		{argument: "localhost:1/ext:v1", err: "give it as localhost:1/ext:v1@sha256:..."},
	} {
		got, err := extension.FindImagerAsset(context.Background(), tt.argument, client.Digest)

		switch {
		case tt.err == "" && err != nil:
			t.Errorf("%s: %v", tt.argument, err)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %v, want %s", tt.argument, err, tt.err)
		}

		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.argument, diff)
		}
	}
}

func TestDrivers(t *testing.T) {
	t.Parallel()

	const (
		vrf    = "machine:\n  kernel:\n    modules:\n      - name: vrf\n"
		vrfIFB = vrf + "      - name: ifb\n"
	)

	for talos, want := range map[string]extension.MachinePatch{
		"v1.13.9": {YAML: []byte(vrfIFB)},
		"v1.13.6": {YAML: []byte(vrf), Warnings: []string{"the kernel of Talos v1.13.6 has no ifb: the bandwidth plugin cannot limit what a pod sends; v1.13.7 has it"}},
		// The next release of the same line counts, not the next that was made.
		"v1.12.9": {YAML: []byte(vrf), Warnings: []string{"the kernel of Talos v1.12.9 has no ifb: the bandwidth plugin cannot limit what a pod sends; v1.12.10 has it"}},
		"v1.14.1": {YAML: []byte(vrfIFB), Warnings: []string{"the drivers of Talos v1.14.1 are not known here; those of v1.13.9 are taken instead"}},
	} {
		got, err := extension.Drivers(talos)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", talos, diff)
		}
	}
}
