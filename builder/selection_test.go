package builder_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/profiles"
)

var all = []string{
	"bandwidth", "bridge", "firewall", "host-device", "host-local", "ipvlan", "macvlan",
	"portmap", "ptp", "sbr", "static", "tuning", "vlan", "vrf",
}

func allBut(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
}

func nothing(context.Context, *builder.Target, *builder.Output) error { return nil }

// TestSelection: the profile says what its nodes need, the user what he wants; the user wins.
func TestSelection(t *testing.T) {
	t.Parallel()

	k3s := []string{"bandwidth", "bridge", "firewall", "host-local", "portmap"}
	omit := []string{"distro: generic", "distro: k3s", "overlap: replace", "overlap: omit"}
	profileWithout := []string{"distro: generic", "plugins: {without: [vrf, vlan]}\ndistro: generic"}

	for name, test := range map[string]struct {
		profile       []string
		with, without []string
		want          []string
		err           string
	}{
		"as pinned":                      {want: all},
		"user leaves out":                {without: []string{"vrf"}, want: allBut("vrf")},
		"platform-owned are omitted":     {profile: omit, want: allBut(k3s...)},
		"unless the user asks":           {profile: omit, with: []string{"bridge"}, want: allBut("bandwidth", "firewall", "host-local", "portmap")},
		"profile leaves out":             {profile: profileWithout, want: allBut("vlan", "vrf")},
		"unless the user asks, too":      {profile: profileWithout, with: []string{"vrf"}, want: allBut("vlan")},
		"user leaves out more":           {profile: profileWithout, without: []string{"tuning"}, want: allBut("tuning", "vlan", "vrf")},
		"user leaves out the same":       {profile: profileWithout, without: []string{"vrf"}, want: allBut("vlan", "vrf")},
		"profile asks, user leaves out":  {profile: []string{"distro: generic", "plugins: {with: [dhcp]}\ndistro: generic"}, without: []string{"dhcp"}, want: all},
		"user contradicts himself":       {with: []string{"vrf"}, without: []string{"vrf"}, err: `profile test: plugin "vrf" is both asked for and left out: decide for one`},
		"unknown":                        {with: []string{"flannel"}, err: `profile test: unknown plugin "flannel": v1.9.1 has `},
		"unknown to the pin, by profile": {profile: []string{"distro: generic", "plugins: {with: [flannel]}\ndistro: generic"}, err: `profile test: unknown plugin "flannel": v1.9.1 has `},
		"nothing left":                   {without: all, err: "profile test: no plugin is left to carry: leave out fewer"},
		"unknown distribution":           {profile: []string{"distro: generic", "distro: plan9"}, err: `profile test: unknown distribution "plan9": known are `},
		"unknown distribution, omit":     {profile: []string{"distro: generic", "distro: plan9", "overlap: replace", "overlap: omit"}, err: `profile test: unknown distribution "plan9": known are `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			options := fakeOptions(t, filepath.Join(t.TempDir(), "dist"), nothing)
			options.Profiles = []profiles.Profile{profileOf(t, "test", test.profile...)}
			options.Plugins = profiles.Selection{With: test.with, Without: test.without}

			report, err := builder.Build(t.Context(), options)
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("error is %v, want %s", err, test.err)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, plugin := range report.Profiles[0].Payloads[0].Plugins {
				got = append(got, plugin.Name)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanRejects(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(*builder.Options)
		want   string
	}{
		"no profile":         {func(o *builder.Options) { o.Profiles = nil }, "no profile to build"},
		"profile twice":      {func(o *builder.Options) { o.Profiles = append(o.Profiles, o.Profiles[0]) }, "profile one is given twice"},
		"architecture":       {func(o *builder.Options) { o.Architectures = []string{"riscv64"} }, `unsupported architecture "riscv64": use amd64, arm, arm64`},
		"architecture twice": {func(o *builder.Options) { o.Architectures = []string{"amd64", "amd64"} }, `architecture "amd64" is listed twice`},
		"format":             {func(o *builder.Options) { o.Formats = nil }, "profile one: format archive cannot be built by this program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			top := t.TempDir()
			options := fakeOptions(t, filepath.Join(top, "dist"), nothing, "one")
			test.change(&options)

			if _, err := builder.Build(t.Context(), options); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}

			checkNames(t, top)
		})
	}
}

// TestArchitectures: the user's replace each profile's own.
func TestArchitectures(t *testing.T) {
	t.Parallel()

	options := fakeOptions(t, filepath.Join(t.TempDir(), "dist"), nothing, "one", "two")
	options.Architectures = []string{"arm64", "amd64"}

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	for _, profile := range report.Profiles {
		for i, payload := range profile.Payloads {
			want, _ := realPlugins(t, options.Architectures[i]).Manifest.Lookup("static")
			if payload.Arch != options.Architectures[i] || len(payload.Plugins) != 1 || payload.Plugins[0] != want {
				t.Errorf("%s for %s carries %+v", profile.Name, payload.Arch, payload.Plugins)
			}
		}
	}
}
