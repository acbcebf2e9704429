package lint

import (
	"archive/tar"
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
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/profiles"
)

// accepted returns the flows that take an artifact, each with its line or release.
func accepted(report *Report) []string {
	flows := []string{}

	for _, v := range report.Flows {
		if v.Accepted {
			flows = append(flows, v.Flow+" "+v.Talos)
		}
	}

	return flows
}

func TestOurExtensions(t *testing.T) {
	t.Parallel()

	dist, _ := buildertest.Build(t, map[profiles.Format]builder.Format{profiles.FormatTalosExtension: extension.Format{}},
		[]string{"talos", "talos-readonly"}, nil)

	for artifact, want := range map[string][]string{
		"talos":                    {"imager 1.13", "imager 1.14", "factory 1.13", "factory 1.14"},
		"talos-amd64.tar":          {"imager 1.13", "imager 1.14", "factory 1.13", "factory 1.14"},
		"talos-arm64.tar":          {"imager 1.13", "imager 1.14", "factory 1.13", "factory 1.14"},
		"talos-readonly":           readonlyFlows,
		"talos-readonly-amd64.tar": readonlyFlows,
		"talos-readonly-arm64.tar": readonlyFlows,
	} {
		t.Run(artifact, func(t *testing.T) {
			t.Parallel()

			report := lintFile(t, filepath.Join(dist, artifact), Options{})
			if !report.Good() {
				t.Errorf("%+v", report.Findings)
			}

			if diff := cmp.Diff(want, accepted(report)); diff != "" {
				t.Error(diff)
			}
		})
	}

	// The list of allowed paths refuses /opt, whatever range the extension has.
	report := lintFile(t, filepath.Join(dist, "talos"), Options{Talos: "v1.8.4"})
	for _, v := range report.Flows {
		refuses := strings.Contains(reasonsOf(v), rulePathNotAllowed)
		if want := v.Flow == "imager" || v.Flow == "installer" || v.Flow == "catalogue"; refuses != want {
			t.Errorf("%s of %s: %+v", v.Flow, v.Talos, v.Reasons)
		}
	}
}

var readonlyFlows = []string{
	"imager 1.11", "imager 1.12", "imager 1.13", "imager 1.14", "catalogue v1.13.0",
	"factory 1.11", "factory 1.12", "factory 1.13", "factory 1.14",
}

func reasonsOf(v Verdict) string {
	var rules []string
	for _, r := range v.Reasons {
		rules = append(rules, r.Rule)
	}

	return strings.Join(rules, " ")
}

func TestDirectory(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()

	for _, i := range good(t, "amd64") {
		name := filepath.Join(dir, filepath.FromSlash(i.header.Name))

		var err error
		if i.header.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, 0o755)
		} else {
			err = os.WriteFile(name, []byte(i.body), os.FileMode(i.header.Mode))
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	report := lintFile(t, dir, Options{})

	// A directory has labels only where the file system of this machine does.
	if diff := cmp.Diff([]string{"selinux-missing"}, rulesOf(report)); diff != "" || report.Kind != KindDirectory {
		t.Errorf("%s %s\n%+v", report.Kind, diff, report.Findings)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	repository := strings.TrimPrefix(server.URL, "http://") + "/ext"

	for tag, push := range map[string]func(name.Tag) error{
		"index": func(tag name.Tag) error { return remote.WriteIndex(tag, goodLayout(t)) },
		"image": func(tag name.Tag) error { return remote.Write(tag, imageOf(t, "arm64", good(t, "arm64"))) },
	} {
		ref, err := name.NewTag(repository + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}

		if err := push(ref); err != nil {
			t.Fatal(err)
		}
	}

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	for tag, want := range map[string][]string{"index": {}, "image": {"oci-single-architecture"}} {
		report := lintFile(t, repository+":"+tag, Options{Talos: "v1.13.9", Pull: client.Get})
		if diff := cmp.Diff(want, rulesOf(report)); diff != "" || report.Kind != KindRegistry {
			t.Errorf("%s: %s %s", tag, report.Kind, diff)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()

	client, err := oci.NewClient()
	if err != nil {
		t.Fatal(err)
	}

	for artifact, want := range map[string]string{
		"dist/nothing": "no such file or directory",
		writeFile(t, "x", []byte("text that is longer than a header, or so it would be "+strings.Repeat("x", 1024))): "neither a tar archive",
		"localhost:1/ext:v1": "connection refused",
	} {
		if _, err := Lint(t.Context(), artifact, Options{Pull: client.Get}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", artifact, err, want)
		}
	}

	if _, err := Lint(t.Context(), good(t, "amd64").tar(t), Options{Talos: "1.13"}); err == nil {
		t.Error("1.13 was taken for a release")
	}
}

// A release that is younger than the tables is judged by the newest flows.
func TestReleaseToCome(t *testing.T) {
	t.Parallel()

	report := lintFile(t, good(t, "amd64").tar(t), Options{Talos: "v1.99.0"})
	if diff := cmp.Diff([]string{"imager v1.99.0", "catalogue v1.13.0", "factory v1.99.0"}, accepted(report)); diff != "" {
		t.Error(diff)
	}
}

// Only the first findings of a rule are listed, with the number of the rest.
func TestManyFindings(t *testing.T) {
	t.Parallel()

	a := good(t, "amd64")
	for range 50 {
		a = append(a, a[a.index(t, tool)])
	}

	report := lintFile(t, a.tar(t), Options{})

	if n := len(report.Findings); n != mostOfOneRule+1 {
		t.Errorf("%d findings", n)
	}

	if last := report.Findings[len(report.Findings)-1].Message; last != "and 30 more like these" {
		t.Errorf("the last finding says %q", last)
	}
}

// Deep and long names, many entries: the work stays in proportion.
func TestHostileNames(t *testing.T) {
	t.Parallel()

	a := good(t, "amd64")
	deep := strings.Repeat("d/", maxParts-10)

	for range 20_000 {
		a = append(a, item{header: tar.Header{Name: "rootfs/" + deep + "x", Typeflag: tar.TypeReg, Mode: 0o644}})
	}

	artifact := a.tar(t)
	start := time.Now()

	lintFile(t, artifact, Options{})

	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}

	a = append(good(t, "amd64"), item{header: tar.Header{Name: "rootfs/" + strings.Repeat("d/", maxParts) + "x", Typeflag: tar.TypeReg}})
	if diff := cmp.Diff([]string{"tar-damaged"}, rulesOf(lintFile(t, a.tar(t), Options{}))); diff != "" {
		t.Error(diff)
	}
}

func TestNothingReachesTheTerminal(t *testing.T) {
	t.Parallel()

	if got, want := printable("a\x1b[31m\u202eb\nc\xff"), "a\uFFFD[31m\uFFFDb\uFFFDc\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
