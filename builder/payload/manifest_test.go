package payload_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/payload"
)

func digest(digit string) string {
	return "sha256:" + strings.Repeat(digit, 64)
}

func manifest() payload.Manifest {
	return payload.Manifest{
		SchemaVersion: payload.SchemaVersion,
		Pin:           payload.Pin{Version: "v1.9.1", Module: "github.com/containernetworking/plugins", Sum: "h1:x="},
		Revision:      1,
		Arch:          "arm64",
		Source:        "module",
		Packaging:     "separate",
		Plugins: []payload.Plugin{
			{Name: "bridge", File: "bridge", Version: "v1.9.1", Digest: digest("a"), Size: 10},
			{Name: "host-local", File: "host-local", Version: "v1.9.1", Digest: digest("b"), Size: 20},
		},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()

	shared := manifest()
	shared.Unpinned = true
	shared.Plugins[1].File = "bridge"
	shared.Plugins[1].Digest, shared.Plugins[1].Size = shared.Plugins[0].Digest, shared.Plugins[0].Size

	for name, want := range map[string]payload.Manifest{"separate": manifest(), "one file, unpinned": shared} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			encoded, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}

			file := filepath.Join(t.TempDir(), payload.ManifestName)
			if err := os.WriteFile(file, encoded, 0o644); err != nil {
				t.Fatal(err)
			}

			got, err := payload.ReadManifest(file)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("manifest (-want +got):\n%s", diff)
			}

			again, err := got.Encode()
			if err != nil {
				t.Fatal(err)
			}

			if !bytes.Equal(encoded, again) {
				t.Errorf("encoding again gives other bytes:\n%s", cmp.Diff(string(encoded), string(again)))
			}
		})
	}
}

func TestManifestRejects(t *testing.T) {
	t.Parallel()

	encoded, err := manifest().Encode()
	if err != nil {
		t.Fatal(err)
	}

	valid := string(encoded)

	many := manifest()
	many.Plugins = nil

	for i := range payload.MaxPlugins + 1 {
		name := fmt.Sprintf("p%04d", i)
		many.Plugins = append(many.Plugins, payload.Plugin{Name: name, File: name, Digest: digest("a"), Size: 1})
	}

	_, tooMany := many.Encode()
	if tooMany == nil || tooMany.Error() != "manifest lists 257 plugins, more than 256" {
		t.Errorf("encoding too many plugins: %v", tooMany)
	}

	tests := map[string]struct{ from, to, want string }{
		"not JSON":            {valid, "{", "manifest is not valid JSON: unexpected end of JSON input"},
		"a list":              {valid, "[]", "manifest is not valid JSON: json: cannot unmarshal array"},
		"empty":               {valid, "", "manifest is not valid JSON: unexpected end of JSON input"},
		"null":                {valid, "null", "manifest has schemaVersion 0, this program reads 1"},
		"newer schema":        {`"schemaVersion": 1`, `"schemaVersion": 2, "news": {}`, "manifest has schemaVersion 2, this program reads 1"},
		"unknown key":         {`"arch"`, `"colour": "red", "arch"`, `decoding manifest: json: unknown field "colour"`},
		"unknown plugin key":  {`"file"`, `"mode": 4755, "file"`, `decoding manifest: json: unknown field "mode"`},
		"wrong type":          {`"size": 10`, `"size": "10"`, "decoding manifest: json: cannot unmarshal string"},
		"fraction":            {`"size": 10`, `"size": 10.5`, "decoding manifest: json: cannot unmarshal number 10.5"},
		"second value":        {valid, valid + "{}", "manifest is not valid JSON: invalid character '{' after top-level value"},
		"no plugins":          {valid, `{"schemaVersion": 1, "arch": "amd64", "pin": {"version": "v1"}}`, "manifest lists no plugins"},
		"no pin":              {`"version": "v1.9.1"`, `"version": ""`, "manifest has no pin version"},
		"architecture":        {`"arm64"`, `"riscv64"`, `manifest has unsupported architecture "riscv64"`},
		"no architecture":     {`"arm64"`, `""`, `manifest has unsupported architecture ""`},
		"name, a path":        {`"name": "bridge"`, `"name": "../bridge"`, `manifest: "../bridge" is not a plugin name`},
		"name, hidden":        {`"name": "bridge"`, `"name": ".bridge"`, `manifest: ".bridge" is not a plugin name`},
		"name, upper case":    {`"name": "bridge"`, `"name": "Bridge"`, `manifest: "Bridge" is not a plugin name`},
		"name, empty":         {`"name": "bridge"`, `"name": ""`, `manifest: "" is not a plugin name`},
		"name, newline":       {`"name": "bridge"`, `"name": "bridge\n"`, `manifest: "bridge\n" is not a plugin name`},
		"name, NUL":           {`"name": "bridge"`, `"name": "bri\u0000dge"`, `manifest: "bri\x00dge" is not a plugin name`},
		"name, long":          {`"name": "bridge"`, `"name": "` + strings.Repeat("b", 65) + `"`, `manifest: "` + strings.Repeat("b", 65) + `" is not a plugin name`},
		"file, a path":        {`"file": "bridge"`, `"file": "a/bridge"`, `manifest: bridge: "a/bridge" is not a plain file name`},
		"file, parent":        {`"file": "bridge"`, `"file": ".."`, `manifest: bridge: ".." is not a plain file name`},
		"file, the manifest":  {`"file": "bridge"`, `"file": ".cni-plugins.json"`, `manifest: bridge: ".cni-plugins.json" is not a plain file name`},
		"file, missing":       {`"file": "bridge",`, ``, `manifest: bridge: "" is not a plain file name`},
		"digest, short":       {digest("a"), "sha256:aa", `manifest: bridge: "sha256:aa" is not a sha256 digest`},
		"digest, other hash":  {digest("a"), "md5:" + strings.Repeat("a", 64), `manifest: bridge: "md5:` + strings.Repeat("a", 64) + `" is not a sha256 digest`},
		"digest, upper case":  {digest("a"), digest("A"), `manifest: bridge: "` + digest("A") + `" is not a sha256 digest`},
		"size, zero":          {`"size": 10`, `"size": 0`, "manifest: bridge: size 0 is not between 1 and 536870912"},
		"size, negative":      {`"size": 10`, `"size": -1`, "manifest: bridge: size -1 is not between 1 and 536870912"},
		"size, huge":          {`"size": 10`, `"size": 536870913`, "manifest: bridge: size 536870913 is not between 1 and 536870912"},
		"not sorted":          {`"name": "host-local"`, `"name": "a"`, "manifest: a: plugins are not sorted or a name is listed twice"},
		"name twice":          {`"name": "host-local"`, `"name": "bridge"`, "manifest: bridge: plugins are not sorted or a name is listed twice"},
		"one file, two sums":  {`"file": "host-local"`, `"file": "bridge"`, "manifest: host-local: file bridge has another digest or size than for bridge"},
		"costly to decode":    {valid, `{"schemaVersion": 1, "plugins": [` + strings.Repeat("1,", 4096) + `1]}`, "manifest lists more than 256 plugins"},
		"larger than allowed": {valid, strings.Repeat(" ", payload.MaxManifestSize+1), "manifest is larger than 1048576 bytes"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if !strings.Contains(valid, test.from) {
				t.Fatalf("nothing to replace: %q", test.from)
			}

			_, err := payload.ParseManifest([]byte(strings.Replace(valid, test.from, test.to, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error is\n\t%v\nwant\n\t%s", err, test.want)
			}
		})
	}
}

// TestReadManifestRefusesOtherFiles also shows that a FIFO without a writer does not block.
func TestReadManifestRefusesOtherFiles(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")

	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}

	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{fifo, link, dir, "/dev/zero"} {
		_, err := payload.ReadManifest(name)
		if want := name + " is not a regular file"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestSamePin(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(*payload.Manifest)
		want   bool
	}{
		"itself":        {func(*payload.Manifest) {}, true},
		"other build":   {func(m *payload.Manifest) { m.Plugins[0].Digest, m.Source = digest("c"), "release" }, true},
		"revision":      {func(m *payload.Manifest) { m.Revision = 2 }, true},
		"other version": {func(m *payload.Manifest) { m.Pin.Version = "v1.10.0" }, false},
		"other sum":     {func(m *payload.Manifest) { m.Pin.Sum = "h1:y=" }, false},
		"other arch":    {func(m *payload.Manifest) { m.Arch = "amd64" }, false},
		"unpinned":      {func(m *payload.Manifest) { m.Unpinned = true }, false},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			other := manifest()
			test.change(&other)

			if got := manifest().SamePin(other); got != test.want {
				t.Errorf("same pin is %t, want %t", got, test.want)
			}

			if got := other.SamePin(manifest()); got != test.want {
				t.Errorf("the other way round it is %t, want %t", got, test.want)
			}
		})
	}
}

func TestManifestLookup(t *testing.T) {
	t.Parallel()

	m := manifest()

	if diff := cmp.Diff([]string{"bridge", "host-local"}, m.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}

	if got, ok := m.Lookup("host-local"); !ok || got != m.Plugins[1] {
		t.Errorf("host-local is %+v, %t", got, ok)
	}

	if got, ok := m.Lookup("host"); ok {
		t.Errorf("host is %+v", got)
	}
}

func FuzzParseManifest(f *testing.F) {
	encoded, err := manifest().Encode()
	if err != nil {
		f.Fatal(err)
	}

	f.Add(encoded)
	f.Add([]byte(`{"schemaVersion":1,"plugins":[{"name":"../x"}]}`))

	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := payload.ParseManifest(data)
		if err != nil {
			return
		}

		for _, plugin := range m.Plugins {
			if filepath.Base(plugin.File) != plugin.File || plugin.File == payload.ManifestName || plugin.File[0] == '.' {
				t.Errorf("accepted file name %q", plugin.File)
			}
		}

		// What is accepted can be written and read again.
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}

		if _, err := payload.ParseManifest(again); err != nil && len(again) <= payload.MaxManifestSize {
			t.Errorf("an encoded manifest is not accepted: %v", err)
		}
	})
}
