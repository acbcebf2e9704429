package profiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

func load(t *testing.T, name string) profiles.Profile {
	t.Helper()

	profile, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}

	return profile
}

func TestBuiltInProfiles(t *testing.T) {
	t.Parallel()

	want := []string{"generic-linux", "init-container", "k3s", "talos", "talos-readonly"}
	if diff := cmp.Diff(want, profiles.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}

	pin := loadPin(t, profiles.DefaultPin)

	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			profile := load(t, name)
			if profile.Name != name {
				t.Errorf("the file named %s describes %s", name, profile.Name)
			}

			if profile.Description == "" {
				t.Error("no description")
			}

			if _, err := distro.Lookup(profile.Distro); err != nil {
				t.Error(err)
			}

			if _, err := pin.Select(profile.Plugins.With, profile.Plugins.Without); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPluginDirIsTheDistributions: what goes where the runtime does not look is never found.
func TestPluginDirIsTheDistributions(t *testing.T) {
	t.Parallel()

	for _, name := range profiles.Names() {
		profile := load(t, name)

		// The image's directory is not the node's, and containerd is told of the other one.
		if profile.Format == profiles.FormatImage || profile.Containerd != nil {
			continue
		}

		d, err := distro.Lookup(profile.Distro)
		if err != nil {
			t.Fatal(err)
		}

		if profile.PluginDir != d.BinDir {
			t.Errorf("profile %s puts plugins into %s, %s looks in %s", name, profile.PluginDir, d.Name, d.BinDir)
		}
	}
}

// TestTalosProfiles holds what the imager facts ask for.
func TestTalosProfiles(t *testing.T) {
	t.Parallel()

	const cniPlugin = "system_u:object_r:cni_plugin_t:s0"

	talos, readonly := load(t, "talos"), load(t, "talos-readonly")

	if got := talos.Extension; got.Name != "cni-plugins" || got.Talos != ">= v1.13.0" {
		t.Errorf("talos: extension is %+v", got)
	}

	if got := readonly.Extension; got.Name != "cni-plugins-readonly" || got.Talos != ">= v1.11.0" {
		t.Errorf("talos-readonly: extension is %+v", got)
	}

	want := map[string]string{
		"/":        "system_u:object_r:rootfs_t:s0",
		"/opt":     "system_u:object_r:opt_t:s0",
		"/opt/cni": cniPlugin,
		"/usr":     "system_u:object_r:usr_t:s0",
	}
	if diff := cmp.Diff(want, talos.SELinux); diff != "" {
		t.Errorf("talos: labels (-want +got):\n%s", diff)
	}

	want = map[string]string{
		"/":                  "system_u:object_r:rootfs_t:s0",
		"/etc":               "system_u:object_r:etc_t:s0",
		"/usr":               "system_u:object_r:usr_t:s0",
		"/usr/local/lib/cni": cniPlugin,
	}
	if diff := cmp.Diff(want, readonly.SELinux); diff != "" {
		t.Errorf("talos-readonly: labels (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]string{"/usr/local/lib/cni", "/opt/cni/bin"}, readonly.Containerd.BinDirs); diff != "" {
		t.Errorf("talos-readonly: bin_dirs (-want +got):\n%s", diff)
	}
}

func TestUnknownProfile(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"talso", "", "."} {
		_, err := profiles.Load(name)
		checkError(t, err, `unknown profile "`+name+`": built in are generic-linux, init-container, k3s, talos, talos-readonly`+
			`; a file of your own is named with a slash or ending in .yaml`)
	}
}

// profileText is a built-in profile's YAML with replacements, given in pairs.
func profileText(t *testing.T, name string, replacements ...string) string {
	t.Helper()

	data, err := profiles.Source(name)
	if err != nil {
		t.Fatal(err)
	}

	return replace(t, string(data), replacements...)
}

// TestOwnProfile: what `profile show` prints is a working start for one's own file.
func TestOwnProfile(t *testing.T) {
	t.Parallel()

	for _, builtIn := range profiles.Names() {
		t.Run(builtIn, func(t *testing.T) {
			t.Parallel()

			name := filepath.Join(t.TempDir(), "mine.yml")
			text := profileText(t, builtIn, "name: "+builtIn, "name: mine") + "\nplugins:\n  with: [dhcp]\n  without: [vrf]\n"

			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}

			want := load(t, builtIn)
			want.Name = "mine"
			want.Plugins = profiles.Selection{With: []string{"dhcp"}, Without: []string{"vrf"}}

			if diff := cmp.Diff(want, load(t, name)); diff != "" {
				t.Errorf("profile (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProfileValidation(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ profile, from, to, want string }{
		"name":                   {"talos", "name: talos\n", "name: ../talos\n", `name "../talos": use lower-case letters, digits and dashes`},
		"name missing":           {"talos", "name: talos\n", "", `name "": use lower-case letters, digits and dashes`},
		"format":                 {"talos", "format: talos-extension", "format: iso", `format "iso" is none of talos-extension, archive, image`},
		"packaging":              {"k3s", "packaging: separate", "packaging: both", `packaging "both" is none of separate, multicall`},
		"compression":            {"talos", "compression: zstd", "compression: xz", `compression "xz" is none of zstd, gzip, none`},
		"overlap":                {"talos", "overlap: replace", "overlap: keep", `overlap "keep" is none of replace, omit`},
		"distro missing":         {"talos", "distro: talos\n", "", `distro is missing: name the distribution whose own plugins may overlap, or generic`},
		"no architectures":       {"talos", "[amd64, arm64]", "[]", `architectures is empty: name at least one`},
		"unsupported":            {"talos", "[amd64, arm64]", "[amd64, riscv64]", `unsupported architecture "riscv64": use amd64, arm, arm64`},
		"architecture twice":     {"talos", "[amd64, arm64]", "[amd64, amd64]", `architecture "amd64" is listed twice`},
		"plugin name":            {"talos", "distro: talos", "plugins: {without: [../x]}\ndistro: talos", `plugins: "../x" is not a plugin name`},
		"directory missing":      {"talos", "pluginDir: /opt/cni/bin", `pluginDir: ""`, `pluginDir is missing`},
		"directory, relative":    {"talos", "pluginDir: /opt", "pluginDir: opt", `pluginDir "opt/cni/bin" is not a clean absolute path`},
		"directory, dots":        {"talos", "pluginDir: /opt", "pluginDir: /../opt", `pluginDir "/../opt/cni/bin" is not a clean absolute path`},
		"directory, the root":    {"talos", "pluginDir: /opt/cni/bin", "pluginDir: /", `pluginDir "/" is not a clean absolute path`},
		"directory, slash":       {"talos", "licenseDir: /usr/local/share/cni-plugins", "licenseDir: /usr/", `licenseDir "/usr/" is not a clean absolute path`},
		"directory, newline":     {"talos", "sbomDir: /usr/local/share/spdx", `sbomDir: "/usr\nlocal"`, `sbomDir "/usr\nlocal" is not a clean absolute path`},
		"label path":             {"talos", "  /opt: ", "  opt: ", `selinux: "opt" is not a clean absolute path`},
		"label":                  {"talos", "system_u:object_r:opt_t:s0", "opt_t", `selinux: /opt: "opt_t" is not USER:ROLE:TYPE:LEVEL`},
		"label, newline":         {"talos", "system_u:object_r:opt_t:s0", `"system_u:object_r:opt_t:s0\nx"`, `selinux: /opt: "system_u:object_r:opt_t:s0\nx" is not USER:ROLE:TYPE:LEVEL`},
		"extension missing":      {"generic-linux", "format: archive", "format: talos-extension", `key "extension" is missing: format talos-extension needs it`},
		"extension of archive":   {"talos", "format: talos-extension", "format: archive", `key "extension" does not apply to format archive: remove it`},
		"installer missing":      {"generic-linux", "installer: /usr/local/bin/install-cni-plugins", "", `key "installer" is missing: format archive needs it`},
		"installer in extension": {"talos", "distro: talos", "installer: /i\ndistro: talos", `key "installer" does not apply to format talos-extension: remove it`},
		"installer, relative":    {"generic-linux", "installer: /", "installer: ./", `installer "./usr/local/bin/install-cni-plugins" is not a clean absolute path`},
		"unit of image":          {"init-container", "distro: generic", "unit: /x.service\ndistro: generic", `key "unit" does not apply to format image: remove it`},
		"unit ending":            {"generic-linux", "cni-plugins.service\n", "cni-plugins.timer\n", `unit "/usr/local/lib/systemd/system/cni-plugins.timer" does not end in .service`},
		"image missing":          {"init-container", "image: ghcr.io/cnibake/install-cni-plugins", "", `key "image" is missing: format image needs it`},
		"image with tag":         {"init-container", "image: ghcr.io/cnibake/install-cni-plugins", "image: ghcr.io/x:v1", `image "ghcr.io/x:v1" is not REGISTRY/REPOSITORY without tag or digest`},
		"labels of archive":      {"generic-linux", "distro: generic", "selinux: {/: \"a:b:c:s0\"}\ndistro: generic", `key "selinux" does not apply to format archive: remove it`},
		"containerd of image":    {"init-container", "distro: generic", "containerd: {part: /a, binDirs: [/cni-plugins]}\ndistro: generic", `key "containerd" does not apply to format image: remove it`},
		"containerd, no dirs":    {"talos-readonly", "[/usr/local/lib/cni, /opt/cni/bin]", "[]", `containerd.binDirs is empty: name the directories containerd searches`},
		"containerd, not ours":   {"talos-readonly", "[/usr/local/lib/cni, /opt/cni/bin]", "[/opt/cni/bin]", `containerd.binDirs does not hold pluginDir /usr/local/lib/cni: containerd would not find the plugins`},
		"containerd, relative":   {"talos-readonly", "/opt/cni/bin]", "opt/cni/bin]", `containerd.binDirs[1] "opt/cni/bin" is not a clean absolute path`},
		"containerd, no part":    {"talos-readonly", "part: /etc/cri/conf.d/20-cni-plugins.part", `part: ""`, `containerd.part is missing`},
		"extension name":         {"talos", "name: cni-plugins", "name: CNI", `extension.name "CNI": use lower-case letters, digits and dashes (it becomes a node label)`},
		"extension author":       {"talos", "author: cnibake", `author: ""`, `extension.author is missing`},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := profiles.Parse("my.yaml", []byte(profileText(t, test.profile, test.from, test.to)))
			checkError(t, err, "my.yaml: "+test.want)
		})
	}
}

// TestTalosRange: Talos drops each version's v and leaves the rest to blang/semver.
func TestTalosRange(t *testing.T) {
	t.Parallel()

	for constraint, ok := range map[string]bool{
		">= v1.13.0":                        true,
		">= 1.13.0":                         true,
		">= v1.11.0 < v1.14.0":              true,
		"1.11.0 || >= v1.13.0":              true,
		">= v1.13.0-alpha.1":                true,
		"~ v1.13.0":                         false,
		"^1.13.0":                           false,
		">= v1.13":                          false,
		"":                                  false,
		"latest":                            false,
		">= v1.13.0, < v1.14.0":             false,
		">= v1.13.0 && < v1.14.0":           false,
		">= v1.13.0\n  extra: \"injected\"": false,
	} {
		t.Run(constraint, func(t *testing.T) {
			t.Parallel()

			quoted := strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(constraint)

			_, err := profiles.Parse("my.yaml", []byte(profileText(t, "talos", ">= v1.13.0", quoted)))
			if (err == nil) != ok {
				t.Fatalf("accepted is %t, want %t: %v", err == nil, ok, err)
			}

			if err != nil && !strings.HasPrefix(err.Error(), "my.yaml: extension.talos ") {
				t.Errorf("the error does not name file and key: %v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range profiles.Names() {
		data, err := profiles.Source(name)
		if err != nil {
			f.Fatal(err)
		}

		f.Add(data)
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		profile, err := profiles.Parse("my.yaml", data)

		switch {
		case err == nil && (profile.Name == "" || !filepath.IsAbs(profile.PluginDir) || len(profile.Architectures) == 0):
			t.Errorf("accepted a profile that cannot be built: %+v", profile)
		case err != nil && !strings.HasPrefix(err.Error(), "my.yaml: "):
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
