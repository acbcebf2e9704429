package plugins_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
)

// collectMerged merges a few real plugins, in the cache that all tests share.
func collectMerged(t *testing.T, arch, shared string) *plugins.Set {
	t.Helper()

	set, err := plugins.CollectMerged(t.Context(), buildertest.Options(t, nil).Source, loadPin(t), arch, selection(t, few...), shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	return set
}

func TestMergedSet(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		arch, shared string
		files        []string
	}{
		"copies":          {"amd64", "", few},
		"one shared file": {"amd64", "cni-plugins", []string{"cni-plugins", "cni-plugins"}},
		"arm64":           {"arm64", "", few},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			set := collectMerged(t, test.arch, test.shared)

			if _, err := set.Manifest.Encode(); err != nil {
				t.Errorf("the manifest cannot be written: %v", err)
			}

			if m := set.Manifest; m.Packaging != "multicall" || m.Source != "module" || m.Unpinned || !slices.Equal(m.Names(), few) {
				t.Errorf("manifest is %+v", m)
			}

			for i, plugin := range set.Manifest.Plugins {
				if plugin.File != test.files[i] || plugin.Version != "v1.9.1" || plugin.Digest != set.Manifest.Plugins[0].Digest {
					t.Errorf("plugin is %+v", plugin)
				}

				if _, ok := set.Files[plugin.File]; !ok {
					t.Errorf("no file %s", plugin.File)
				}

				if b := set.Binaries[plugin.Name]; b.Arch != test.arch || b.LinkedModule(set.Manifest.Pin.Module).Sum != set.Manifest.Pin.Sum {
					t.Errorf("%s is for %s, linked from %+v", plugin.Name, b.Arch, b.LinkedModule(set.Manifest.Pin.Module))
				}
			}
		})
	}
}

// TestMergedGoesByItsName calls the program by right and wrong names.
func TestMergedGoesByItsName(t *testing.T) {
	t.Parallel()

	program := collectMerged(t, "amd64", "").Files["static"].Path
	dir := t.TempDir()

	for name, target := range map[string]string{"static": program, "bridge": program, "static.old": program} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Link(program, filepath.Join(dir, "host-local")); err != nil {
		if err := exec.Command("cp", program, filepath.Join(dir, "host-local")).Run(); err != nil {
			t.Fatal(err)
		}
	}

	for name, test := range map[string]struct {
		file, argv0, command string
		stdout, stderr       string
	}{
		"symlink":                        {file: "static", stderr: "CNI static plugin v1.9.1"},
		"file":                           {file: "host-local", stderr: "CNI host-local plugin v1.9.1"},
		"path as argv[0]":                {file: "static", argv0: "/opt/cni/bin/static", stderr: "CNI static plugin v1.9.1"},
		"odd argv[0]":                    {file: "host-local", argv0: "plugin", stderr: "CNI host-local plugin v1.9.1"},
		"not merged":                     {file: "bridge", stderr: `this program is several CNI plugins in one, and none of them is called "bridge"`},
		"renamed":                        {file: "static.old", stderr: `none of them is called "static.old"`},
		"not merged, called as a plugin": {file: "bridge", command: "VERSION", stdout: `"msg": "this program is several CNI plugins in one`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var stdout, stderr bytes.Buffer

			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, test.file))
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Env = []string{}

			if test.argv0 != "" {
				cmd.Args[0] = test.argv0
			}

			if test.command != "" {
				cmd.Env = []string{"CNI_COMMAND=" + test.command}
			}

			err := cmd.Run()
			if refused := strings.Contains(test.stdout+test.stderr, " called "); refused == (err == nil) && test.command == "" {
				t.Errorf("error is %v", err)
			}

			if !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("printed %q and %q, want %q and %q", stdout.String(), stderr.String(), test.stdout, test.stderr)
			}
		})
	}
}

func TestMergeNeedsTheModule(t *testing.T) {
	t.Parallel()

	_, err := plugins.CollectMerged(t.Context(), &plugins.DirectorySource{Path: t.TempDir()}, loadPin(t), "amd64", selection(t, few...), "", t.TempDir())

	const want = "packaging multicall compiles the plugins, which source directory does not: use --source module, or --packaging separate"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestVerifyMerged(t *testing.T) {
	t.Parallel()

	merged := collectMerged(t, "amd64", "").Files["static"].Path

	if err := plugins.VerifyMerged(merged, loadPin(t), "amd64"); err != nil {
		t.Error(err)
	}

	data, err := os.ReadFile(merged)
	if err != nil {
		t.Fatal(err)
	}

	ls, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		program []byte
		want    string
	}{
		"other version": {bytes.ReplaceAll(data, []byte("plugins\tv1.9.1\t"), []byte("plugins\tv1.9.0\t")), `build info has module version "v1.9.0" instead of "v1.9.1"`},
		"other level":   {bytes.ReplaceAll(data, []byte("GOAMD64=v1"), []byte("GOAMD64=v3")), `build info has GOAMD64 "v3" instead of "v1"`},
		"no build info": {ls, `build info has module version "" instead of "v1.9.1"`},
		"not a program": {[]byte("x"), payload.ErrNotELF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := plugins.VerifyMerged(save(t, "program", test.program), loadPin(t), "amd64")
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}
