package builder_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// TestProvenance: there is a statement about every artifact, every image and every index, that lists just
// the programs in it.
func TestProvenance(t *testing.T) {
	t.Parallel()

	options := realOptions(t, "talos", "generic-linux", "init-container")
	options.Version = "v1.2.3"

	report, err := builder.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	dist, err := builder.OpenDist(options.Out)
	if err != nil {
		t.Fatal(err)
	}

	statements, err := dist.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	got := make(map[string]string)

	for _, statement := range statements {
		if statement.PredicateType == attest.Provenance {
			got[statement.Subject[0].Name+" sha256:"+statement.Subject[0].Digest["sha256"]] = summary(t, statement)
		}
	}

	want := make(map[string]string)

	for _, profile := range report.Profiles {
		programs := make(map[string]string)

		for _, p := range profile.Payloads {
			programs[p.Arch] = "host-local static"
			if p.Installer != nil {
				programs[p.Arch] += " install-cni-plugins"
			}
		}

		for _, artifact := range profile.Artifacts {
			switch artifact.Kind {
			case builder.KindSBOM, builder.KindProvenance:
			case builder.KindOCILayout:
				subjects, err := openLayout(t, dist.Path(artifact.Name)).Subjects(t.Context())
				if err != nil {
					t.Fatal(err)
				}

				want[artifact.Name+" "+subjects[0].Descriptor.Digest.String()] = profile.Name + " : linux/amd64 linux/arm64"

				for _, image := range artifact.Images {
					want[artifact.Name+"-"+image.Arch+" "+image.Digest] = profile.Name + " " + image.Arch + ": " + programs[image.Arch]
				}
			default:
				want[artifact.Name+" "+artifact.Digest] = profile.Name + " " + artifact.Arch + ": " + programs[artifact.Arch]
			}
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
}

// summary says for what a build was, and what was in it.
func summary(t *testing.T, statement attest.Statement) string {
	t.Helper()

	var p struct {
		BuildDefinition struct {
			ExternalParameters struct {
				Profile, Arch, Pin, Source, Packaging string
				Without                               []string
			}
			ResolvedDependencies []attest.Resource
		}
		RunDetails struct {
			Builder struct{ Version map[string]string }
		}
	}

	if err := json.Unmarshal(statement.Predicate, &p); err != nil {
		t.Fatal(err)
	}

	parameters := p.BuildDefinition.ExternalParameters
	if parameters.Pin != "v1.9.1" || parameters.Source != "module" || parameters.Packaging != "separate" || len(parameters.Without) != 12 {
		t.Errorf("parameters: %+v", parameters)
	}

	if version := p.RunDetails.Builder.Version["cnibake"]; version != "v1.2.3" {
		t.Errorf("built by version %q", version)
	}

	var modules, toolchains int

	names := make([]string, 0, len(p.BuildDefinition.ResolvedDependencies))

	for _, dependency := range p.BuildDefinition.ResolvedDependencies {
		switch dependency.Annotations["kind"] {
		case "module":
			modules++

			if dependency.URI != "pkg:golang/github.com/containernetworking/plugins@v1.9.1" || dependency.Digest["dirHash"] == "" {
				t.Errorf("module: %+v", dependency)
			}
		case "toolchain":
			toolchains++
		default:
			names = append(names, dependency.Name)
		}
	}

	if modules != 1 || toolchains != 1 {
		t.Errorf("%d modules and %d toolchains", modules, toolchains)
	}

	return fmt.Sprintf("%s %s: %s", parameters.Profile, parameters.Arch, strings.Join(names, " "))
}

// Signing changes a layout's index and adds files; the sums follow that and nothing else.
func TestSumsFollowSigning(t *testing.T) {
	t.Parallel()

	dist := talosDist(t)

	check := func(what string, check func() error, want string) {
		t.Helper()

		err := check()

		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case want != "" && (!attest.IsRefusal(err) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}

	sums := func() error { return dist.CheckSums(t.Context()) }
	content := func() error { return dist.CheckContent(t.Context(), "talos", "talos-amd64.tar", "talos-arm64.tar") }
	add := func(name, text string) {
		t.Helper()

		file, err := os.OpenFile(dist.Path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()

		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}

	check("as built", sums, "")

	// As signing does it, interrupted before the sums.
	add("talos/index.json", "\n")
	add("talos-amd64.tar"+attest.SignatureSuffix, "{}")
	check("signed halfway", sums, "talos/index.json was altered")
	check("signed halfway", content, "")

	add("talos-arm64.tar", "x")
	check("altered", content, "talos-arm64.tar was altered")

	if err := dist.CheckContent(t.Context(), "talos"); err != nil {
		t.Errorf("the layout is as it was: %v", err)
	}

	if err := dist.UpdateSums(t.Context(), "talos", "talos-amd64.tar"); err != nil {
		t.Fatal(err)
	}

	check("followed", sums, "SHA256SUMS: talos-arm64.tar was altered")

	lines, err := os.ReadFile(dist.Path(builder.SumsName))
	if err != nil {
		t.Fatal(err)
	}

	names := strings.Fields(string(lines))
	if !slices.Contains(names, "talos-amd64.tar"+attest.SignatureSuffix) {
		t.Errorf("the signature is not among\n%s", lines)
	}

	// What a build consists of is for the sums to say, too.
	without := slices.DeleteFunc(strings.SplitAfter(string(lines), "\n"), func(line string) bool {
		return strings.HasSuffix(line, "build.json\n") || strings.HasSuffix(line, "talos-arm64.tar\n")
	})
	if err := os.WriteFile(dist.Path(builder.SumsName), []byte(strings.Join(without, "")), 0o644); err != nil {
		t.Fatal(err)
	}

	check("without build.json", sums, "does not list build.json")

	if err := os.WriteFile(dist.Path(builder.SumsName), []byte("00  ../elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	check("elsewhere", sums, "line 1 is not a sum and a name")
}

// The index of a layout changes when it is signed, but not in what it publishes.
func TestAlteredIndexIsNotSigned(t *testing.T) {
	t.Parallel()

	signer, _ := buildertest.Signer(t, buildertest.NewKey(t))
	dist := talosDist(t)

	path := dist.Path("talos/index.json")

	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for name, alter := range map[string]func(*v1.IndexManifest){
		"swapped": func(i *v1.IndexManifest) {
			i.Manifests[0].Platform, i.Manifests[1].Platform = i.Manifests[1].Platform, i.Manifests[0].Platform
		},
		"shorter":   func(i *v1.IndexManifest) { i.Manifests = i.Manifests[:1] },
		"annotated": func(i *v1.IndexManifest) { i.Annotations = map[string]string{"org.opencontainers.image.version": "v9"} },
	} {
		var index v1.IndexManifest
		if err := json.Unmarshal(before, &index); err != nil {
			t.Fatal(err)
		}

		alter(&index)

		data, err := json.Marshal(index)
		if err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}

		part, err := builder.Signable{Store: openLayout(t, dist.Path("talos"))}.InDist(dist.Path("talos"))
		if err != nil {
			t.Fatal(err)
		}

		for _, signable := range []builder.Signable{{Dist: dist}, part} {
			if _, err := signable.Sign(t.Context(), signer); !attest.IsRefusal(err) || !strings.Contains(err.Error(), "talos/index.json was altered") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}

	if err := os.WriteFile(path, before, 0o644); err != nil {
		t.Fatal(err)
	}

	// What a signer leaves that is killed is nobody's: sums with it in them would be those of no bundle.
	left := strings.Repeat("0", 64)
	for _, name := range []string{left, ".new-1"} {
		if err := os.WriteFile(dist.Path("talos/blobs/sha256/"+name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		if _, err := (builder.Signable{Dist: dist}).Sign(t.Context(), signer); err != nil {
			t.Errorf("as built: %v", err)
		}
	}

	sums, err := os.ReadFile(dist.Path(builder.SumsName))
	if err != nil {
		t.Fatal(err)
	}

	// Two configurations, two layers, two manifests; and two attachments each for the index and two images.
	if n := strings.Count(string(sums), "talos/blobs/"); n < 6+2*3*2 || strings.Contains(string(sums), left) || strings.Contains(string(sums), ".new-") {
		t.Errorf("the sums have %d blobs:\n%s", n, sums)
	}

	if err := dist.CheckSums(t.Context()); err != nil {
		t.Error(err)
	}
}

// talosDist builds the extension and opens what the build wrote.
func talosDist(t *testing.T) *builder.Dist {
	t.Helper()

	options := realOptions(t, "talos")
	if _, err := builder.Build(t.Context(), options); err != nil {
		t.Fatal(err)
	}

	dist, err := builder.OpenDist(options.Out)
	if err != nil {
		t.Fatal(err)
	}

	return dist
}

func openLayout(t *testing.T, dir string) *oci.Layout {
	t.Helper()

	layout, err := oci.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}

	return layout
}

// A second signer of a whole build would spoil the sums that the first has signed.
func TestSecondSignerChangesNothing(t *testing.T) {
	t.Parallel()

	dist := talosDist(t)

	statements, err := dist.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	whole := builder.Signable{Dist: dist}
	first, trust := buildertest.Signer(t, buildertest.NewKey(t))
	second, _ := buildertest.Signer(t, buildertest.NewKey(t))

	if _, err := whole.Sign(t.Context(), first); err != nil {
		t.Fatal(err)
	}

	policy := buildertest.Policy(t, trust)
	policy.SignatureOnly = true

	if err := os.WriteFile(dist.Path("talos-riscv64.tar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	if reports, err := whole.Verify(t.Context(), policy); err != nil || len(reports[0].Warnings) != 1 || !strings.Contains(reports[0].Warnings[0], "talos-riscv64.tar is not of the build") {
		t.Errorf("verified: %+v: %v", reports, err)
	}

	before := snapshot(t, dist.Dir)

	_, signErr := whole.Sign(t.Context(), second)
	_, attestErr := whole.Attest(t.Context(), second, statements)

	for _, err := range []error{signErr, attestErr} {
		if err == nil || !strings.Contains(err.Error(), "by somebody else: move it away") {
			t.Errorf("error is %v", err)
		}
	}

	if diff := cmp.Diff(before, snapshot(t, dist.Dir)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}

	// What is no signature is refused beforehand, too.
	if err := os.WriteFile(dist.Path("talos-amd64.tar"+attest.SignatureSuffix), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := whole.Sign(t.Context(), second); err == nil || !strings.Contains(err.Error(), "remove it to sign anew") {
		t.Errorf("error is %v", err)
	}
}
