package builder_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/profiles"
)

// few plugins are enough here; the whole set would only take longer.
var few = []string{"host-local", "static"}

// realOptions build real artifacts of a few plugins for both architectures; a real plugin stands in for the installer.
func realOptions(t *testing.T, names ...string) builder.Options {
	t.Helper()

	options := buildertest.Options(t, map[profiles.Format]builder.Format{
		profiles.FormatArchive: builder.Archive{}, profiles.FormatImage: builder.Image{}, profiles.FormatTalosExtension: extension.Format{},
	})
	options.Plugins.Without = without(t, few...)

	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.Symlink(realPlugins(t, arch).Files["static"].Path, filepath.Join(dir, arch)); err != nil {
			t.Fatal(err)
		}
	}

	options.Installer = func() (installer.Source, error) {
		return &installer.FileSource{Path: filepath.Join(dir, "{arch}")}, nil
	}

	for _, name := range names {
		profile, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}

		profile.Packaging = profiles.Separate // so that each plugin has a digest of its own
		options.Profiles = append(options.Profiles, profile)
	}

	return options
}

// plainAndZstd are generic-linux with other compressions.
func plainAndZstd(t *testing.T) []profiles.Profile {
	t.Helper()

	return []profiles.Profile{
		profileOf(t, "plain", "compression: gzip", "compression: none"),
		profileOf(t, "zstd", "compression: gzip", "compression: zstd"),
	}
}

func expected(t *testing.T, arch, source string) []builder.FoundPlugin {
	t.Helper()

	var all []builder.FoundPlugin

	for _, name := range few {
		plugin, _ := realPlugins(t, arch).Manifest.Lookup(name)
		state := builder.StateListed

		if source == "unknown" {
			state = builder.StateUnverified
		}

		all = append(all, builder.FoundPlugin{
			Name: name, Version: "v1.9.1", Source: source, Digest: plugin.Digest, Arch: arch, Size: plugin.Size, State: state,
		})
	}

	return all
}

func inspect(t *testing.T, artifact string) []builder.Contents {
	t.Helper()

	all, err := builder.Inspect(t.Context(), artifact)
	if err != nil {
		t.Fatal(err)
	}

	return all
}

// withoutPrograms compares what inspect prints.
var withoutPrograms = cmpopts.IgnoreFields(builder.Contents{}, "Programs", "Odd")

func TestInspectEveryArtifact(t *testing.T) {
	t.Parallel()

	options := realOptions(t, "talos", "talos-readonly", "generic-linux", "init-container")
	options.Profiles = append(options.Profiles, plainAndZstd(t)...)

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	checkSums(t, options.Out)

	seen := make(map[string]int)

	for _, profile := range report.Profiles {
		for _, artifact := range profile.Artifacts {
			if artifact.Kind == builder.KindSBOM || artifact.Kind == builder.KindProvenance {
				continue
			}

			seen[artifact.Kind]++

			architectures := []string{artifact.Arch}
			if artifact.Kind == builder.KindOCILayout {
				architectures = []string{"amd64", "arm64"}
			}

			all := inspect(t, filepath.Join(options.Out, artifact.Name))
			if len(all) != len(architectures) {
				t.Fatalf("%s holds %d sets", artifact.Name, len(all))
			}

			for i, contents := range all {
				if diff := cmp.Diff(expected(t, architectures[i], "module"), contents.Plugins); diff != "" || !contents.Good() || contents.Arch != architectures[i] || contents.Manifest == nil {
					t.Errorf("%s for %s (-want +got):\n%s", artifact.Name, contents.Arch, diff)
				}
			}
		}
	}

	want := map[string]int{builder.KindOCILayout: 3, builder.KindOCIArchive: 2, builder.KindExtensionTar: 4, builder.KindArchive: 4}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
}

// TestInspectMerged: one program under several names, as copies and as one file.
func TestInspectMerged(t *testing.T) {
	t.Parallel()

	options := realOptions(t, "talos", "init-container")
	for i := range options.Profiles {
		options.Profiles[i].Packaging = profiles.Multicall
	}

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	for i, artifact := range []string{"talos", "init-container"} {
		for j, contents := range inspect(t, filepath.Join(options.Out, artifact)) {
			if !contents.Good() || contents.Manifest.Packaging != "multicall" || len(contents.Plugins) != len(few) {
				t.Errorf("%s for %s: %+v", artifact, contents.Arch, contents.Plugins)
			}

			for k, plugin := range contents.Plugins {
				want := report.Profiles[i].Payloads[j].Plugins[k]
				if plugin.Name != few[k] || plugin.Digest != want.Digest || plugin.Arch != contents.Arch || plugin.Version != "v1.9.1" {
					t.Errorf("%s for %s: %+v, want %+v", artifact, contents.Arch, plugin, want)
				}
			}
		}
	}
}

// pluginDir is a bin directory with real plugins and their manifest.
func pluginDir(t *testing.T) string {
	t.Helper()

	dir, set := filepath.Join(t.TempDir(), "bin"), realPlugins(t, "amd64")
	manifest := set.Manifest
	manifest.Plugins = slices.DeleteFunc(slices.Clone(manifest.Plugins), func(p payload.Plugin) bool { return !slices.Contains(few, p.Name) })

	for _, name := range few {
		copyFile(t, set.Files[name].Path, filepath.Join(dir, name))
	}

	encoded, err := manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}

	writeFile(t, filepath.Join(dir, payload.ManifestName), string(encoded))

	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()

	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	writeFile(t, to, string(data))
}

// TestInspectStates changes a bin directory and looks at the state of plugin static, in the directory
// itself and in a tar of it.
func TestInspectStates(t *testing.T) {
	t.Parallel()

	static := func(t *testing.T, arch string) string {
		t.Helper()

		return realPlugins(t, arch).Files["static"].Path
	}

	for name, test := range map[string]struct {
		change func(t *testing.T, dir string) error
		state  string
	}{
		"as built": {func(*testing.T, string) error { return nil }, builder.StateListed},
		"beside others": {func(t *testing.T, dir string) error {
			writeFile(t, filepath.Join(dir, "flannel"), "\x7fELF of somebody else")

			return os.Symlink("static", filepath.Join(dir, "link"))
		}, builder.StateListed},
		"flipped byte": {func(_ *testing.T, dir string) error {
			file, err := os.OpenFile(filepath.Join(dir, "static"), os.O_WRONLY, 0)
			if err != nil {
				return err
			}

			_, err = file.WriteAt([]byte{0xff}, 1_000_000)

			return errors.Join(err, file.Close())
		}, builder.StateAltered},
		"cut short": {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "static"), 1_000_000) }, builder.StateAltered},
		"emptied":   {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "static"), 0) }, builder.StateAltered},
		"a script": {func(t *testing.T, dir string) error {
			writeFile(t, filepath.Join(dir, "static"), "#!/bin/sh\n")

			return nil
		}, builder.StateAltered},
		"another plugin": {func(t *testing.T, dir string) error {
			copyFile(t, filepath.Join(dir, "host-local"), filepath.Join(dir, "static"))

			return nil
		}, builder.StateAltered},
		"another architecture": {func(t *testing.T, dir string) error {
			copyFile(t, static(t, "arm64"), filepath.Join(dir, "static"))

			return nil
		}, builder.StateAltered},
		"altered, with the right one elsewhere": {func(t *testing.T, dir string) error {
			writeFile(t, filepath.Join(dir, "static"), "#!/bin/sh\n")
			copyFile(t, static(t, "amd64"), filepath.Join(dir, "backup", "static"))

			return nil
		}, builder.StateAltered},
		"right, with another elsewhere": {func(t *testing.T, dir string) error {
			writeFile(t, filepath.Join(dir, "backup", "static"), "#!/bin/sh\n")

			return nil
		}, builder.StateListed},
		"removed": {func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "static")) }, builder.StateMissing},
		"elsewhere": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.Rename(filepath.Join(dir, "static"), filepath.Join(dir, "sub", "static")))
		}, builder.StateMissing},
		"a symlink": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "static")), os.Symlink("host-local", filepath.Join(dir, "static")))
		}, builder.StateMissing},
		"a FIFO": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "static")), syscall.Mkfifo(filepath.Join(dir, "static"), 0o644))
		}, builder.StateMissing},
		"manifest for another architecture": {func(t *testing.T, dir string) error {
			name := filepath.Join(dir, payload.ManifestName)

			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}

			return os.WriteFile(name, bytes.Replace(data, []byte(`"arch": "amd64"`), []byte(`"arch": "arm64"`), 1), 0o644)
		}, builder.StateWrongArch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := pluginDir(t)
			if err := test.change(t, dir); err != nil {
				t.Fatal(err)
			}

			for _, artifact := range []string{dir, tarOf(t, dir)} {
				all := inspect(t, artifact)
				if len(all) != 1 || len(all[0].Plugins) != 2 {
					t.Fatalf("%s: contents are %+v", artifact, all)
				}

				if got := all[0].Plugins[1]; got.State != test.state {
					t.Errorf("%s: static is %s, want %s", artifact, got.State, test.state)
				}

				if good := all[0].Good(); good != (test.state == builder.StateListed) {
					t.Errorf("%s: good is %t", artifact, good)
				}
			}
		})
	}
}

// tarOf is a tar of a directory as tar itself would make it: symlinks and special files included.
func tarOf(t *testing.T, dir string) string {
	t.Helper()

	name := filepath.Join(t.TempDir(), "artifact.tar")

	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	archive := tar.NewWriter(file)

	for path := range snapshot(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}

		link, _ := os.Readlink(filepath.Join(dir, path))

		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			t.Fatal(err)
		}

		header.Name = "./opt/cni/bin/" + path
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}

		if info.Mode().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}

			if _, err := archive.Write(data); err != nil {
				t.Fatal(err)
			}
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	return name
}

func TestInspectWithoutManifest(t *testing.T) {
	t.Parallel()

	dir := pluginDir(t)
	if err := os.Remove(filepath.Join(dir, payload.ManifestName)); err != nil {
		t.Fatal(err)
	}

	copyFile(t, "/bin/ls", filepath.Join(dir, "ls"))
	writeFile(t, filepath.Join(dir, "README"), "not a program")

	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}

	for _, artifact := range []string{dir, link, tarOf(t, dir)} {
		want := []builder.Contents{{Plugins: expected(t, "amd64", "unknown")}}
		if diff := cmp.Diff(want, inspect(t, artifact), withoutPrograms); diff != "" {
			t.Errorf("%s (-want +got):\n%s", artifact, diff)
		}
	}
}

// TestInspectImageOfAnotherArchitecture: what the image claims is what a node will go by.
func TestInspectImageOfAnotherArchitecture(t *testing.T) {
	t.Parallel()

	for name, withManifest := range map[string]bool{"with manifest": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir, tree := pluginDir(t), &rootfs.Tree{}

			for _, name := range append(slices.Clone(few), payload.ManifestName) {
				digest, size, err := payload.DigestFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}

				if name == payload.ManifestName && !withManifest {
					continue
				}

				if err := tree.Add("opt/cni/bin/"+name, 0o755, rootfs.File(filepath.Join(dir, name), digest, size)); err != nil {
					t.Fatal(err)
				}
			}

			options := realOptions(t)

			layer, err := options.Packer.Layer(t.Context(), tree, options.Created, oci.None)
			if err != nil {
				t.Fatal(err)
			}

			image, err := oci.NewImage(layer, oci.ImageConfig{Arch: "arm64", Created: options.Created})
			if err != nil {
				t.Fatal(err)
			}

			layout := filepath.Join(t.TempDir(), "layout")
			if err := oci.WriteLayout(layout, "v1", nil, []oci.Variant{{Arch: "arm64", Image: image}}); err != nil {
				t.Fatal(err)
			}

			for _, plugin := range inspect(t, layout)[0].Plugins {
				if plugin.State != builder.StateWrongArch || plugin.Arch != "amd64" {
					t.Errorf("%s for %s is %s", plugin.Name, plugin.Arch, plugin.State)
				}
			}
		})
	}
}

func TestInspectRejects(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		make func(t *testing.T, name string) error
		want string
	}{
		"absent": {func(*testing.T, string) error { return nil }, "inspecting: stat NAME: no such file or directory"},
		"FIFO":   {func(_ *testing.T, name string) error { return syscall.Mkfifo(name, 0o644) }, "inspecting NAME: neither a file nor a directory"},
		"text": {func(t *testing.T, name string) error {
			writeFile(t, name, strings.Repeat("text\n", 1000))

			return nil
		}, "inspecting NAME: reading tar archive: archive/tar: invalid tar header"},
		"gzip, cut": {func(t *testing.T, name string) error {
			writeFile(t, name, "\x1f\x8b\x08\x00")

			return nil
		}, "inspecting NAME: reading gzip: "},
		"broken manifest": {func(t *testing.T, name string) error {
			writeFile(t, filepath.Join(name, payload.ManifestName), "{")

			return nil
		}, "inspecting NAME: .cni-plugins.json: manifest is not valid JSON: "},
		"endless manifest": {func(t *testing.T, name string) error {
			writeFile(t, filepath.Join(name, payload.ManifestName), "{")

			return os.Truncate(filepath.Join(name, payload.ManifestName), 1<<40)
		}, "inspecting NAME: .cni-plugins.json: manifest is larger than 1048576 bytes"},
		"two manifests": {func(t *testing.T, name string) error {
			return errors.Join(os.CopyFS(filepath.Join(name, "a"), os.DirFS(pluginDir(t))), os.CopyFS(filepath.Join(name, "b"), os.DirFS(pluginDir(t))))
		}, "inspecting NAME: there is a manifest in a and in b: inspect one of them alone"},
		"layout without images": {func(_ *testing.T, name string) error { return oci.WriteLayout(name, "v1", nil, nil) }, "layout NAME holds no image"},
		"layout without index": {func(t *testing.T, name string) error {
			writeFile(t, filepath.Join(name, "oci-layout"), "{}")

			return nil
		}, "reading layout NAME: stat NAME/index.json: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			artifact := filepath.Join(t.TempDir(), "artifact")
			if err := test.make(t, artifact); err != nil {
				t.Fatal(err)
			}

			all, err := builder.Inspect(t.Context(), artifact)
			if want := strings.ReplaceAll(test.want, "NAME", artifact); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("contents are %+v, error %v, want %s", all, err, want)
			}
		})
	}
}

func TestInspectNothing(t *testing.T) {
	t.Parallel()

	empty := filepath.Join(t.TempDir(), "empty.tar")
	writeFile(t, empty, "")

	for _, artifact := range []string{t.TempDir(), empty} {
		if diff := cmp.Diff([]builder.Contents{{}}, inspect(t, artifact), withoutPrograms); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
	}
}

func TestInspectCanceled(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	dir := pluginDir(t)

	for _, artifact := range []string{dir, tarOf(t, dir)} {
		if _, err := builder.Inspect(ctx, artifact); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
}
