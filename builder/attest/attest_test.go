package attest_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/profiles"
)

// dist builds the talos profile with two plugins, for both architectures.
func dist(t *testing.T, change func(*builder.Options)) string {
	t.Helper()

	formats := map[profiles.Format]builder.Format{profiles.FormatTalosExtension: extension.Format{}}

	out, _ := buildertest.Build(t, formats, []string{"talos"}, func(options *builder.Options) {
		for _, plugin := range options.Pin.Plugins {
			if plugin.Name != "static" && plugin.Name != "host-local" {
				options.Plugins.Without = append(options.Plugins.Without, plugin.Name)
			}
		}

		options.Packaging = profiles.Separate
		options.Version = "v0.0.0-test"

		if change != nil {
			change(options)
		}
	})

	return out
}

// keyPair returns a new signer and whom to trust to believe it.
func keyPair(t *testing.T) (*attest.Signer, *attest.Trust) {
	t.Helper()

	return buildertest.Signer(t, buildertest.NewKey(t))
}

func open(t *testing.T, dir string) *oci.Layout {
	t.Helper()

	layout, err := oci.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}

	return layout
}

// statements are those of a build.
func statements(t *testing.T, dist string) []attest.Statement {
	t.Helper()

	built, err := builder.OpenDist(dist)
	if err != nil {
		t.Fatal(err)
	}

	all, err := built.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	return all
}

// signed signs and attests a store.
func signed(t *testing.T, dist string, store oci.Store, signer *attest.Signer) {
	t.Helper()

	if _, err := attest.Sign(t.Context(), store, signer, ""); err != nil {
		t.Fatal(err)
	}

	if _, err := attest.Attest(t.Context(), store, signer, statements(t, dist)); err != nil {
		t.Fatal(err)
	}
}

func TestSignedLayoutVerifies(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	layout := open(t, filepath.Join(out, "talos"))
	signer, trust := keyPair(t)

	if _, err := attest.Verify(t.Context(), layout, buildertest.Policy(t, trust)); !attest.IsRefusal(err) {
		t.Fatalf("an unsigned layout: %v", err)
	}

	signed(t, out, layout, signer)

	report, err := attest.Verify(t.Context(), layout, buildertest.Policy(t, trust))
	if err != nil {
		t.Fatal(err)
	}

	both := []attest.Format{attest.Legacy, attest.Bundle}
	all := []string{attest.Provenance, attest.SPDX}

	var got []attest.SubjectReport
	for _, subject := range report.Subjects {
		subject.Digest = ""
		got = append(got, subject)
	}

	want := []attest.SubjectReport{
		{Signed: both, Attested: all[:1]},
		{Platform: "linux/amd64", Signed: both, Attested: all, Plugins: 2},
		{Platform: "linux/arm64", Signed: both, Attested: all, Plugins: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Warnings) > 0 {
		t.Errorf("report (-want +got):\n%s%q", diff, report.Warnings)
	}
}
