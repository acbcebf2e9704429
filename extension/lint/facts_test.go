package lint

import (
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/gendata"
)

func mustFacts(t testing.TB) *facts {
	t.Helper()

	f, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}

	return f
}

// The library this program is linked with is one of the releases the table tells about.
func TestAllowedPathsAreMachinerys(t *testing.T) {
	t.Parallel()

	version := semver.MustParse(gendata.VersionTag[1:])

	var prefixes []string

	for _, allowed := range mustFacts(t).paths.Allowed {
		if !lineOf(version).before(allowed.From) {
			prefixes = allowed.Prefixes
		}
	}

	if diff := cmp.Diff(extensions.AllowedPaths, prefixes); diff != "" {
		t.Error(diff)
	}
}

func TestLabelOf(t *testing.T) {
	t.Parallel()

	f := mustFacts(t)

	for node, want := range map[string]string{
		"/":                       "rootfs_t",
		"/opt":                    "opt_t",
		"/opt/cni":                "cni_plugin_t",
		"/opt/cni/bin/bridge":     "cni_plugin_t",
		"/optional":               "rootfs_t",
		"/etc/cri/conf.d/x.part":  "etc_t",
		"/usr/local/bin/x":        "usr_t",
		"/usr/bin":                "bin_exec_t",
		"/usr/bin/containerd":     "containerd_exec_t",
		"/usr/lib/modules/6/x.ko": "module_t",
	} {
		if got := f.labelOf(node); got != want {
			t.Errorf("%s: got %s, want %s", node, got, want)
		}
	}
}

// Every line that a flow speaks of has releases, and every release has a flow.
func TestFlowsCoverTheReleases(t *testing.T) {
	t.Parallel()

	f := mustFacts(t)
	covered := make(map[line]bool)

	for _, flow := range f.flows {
		for l := flow.From; !flow.To.before(l); l.minor++ {
			if len(f.within(l, l)) == 0 {
				t.Errorf("%s: no release of %s is known", flow.Flow, l)
			}

			covered[l] = covered[l] || flow.Flow == "imager"
		}
	}

	for _, r := range f.releases {
		if !covered[lineOf(r.version)] {
			t.Errorf("v%s has no imager in data/flows.yaml", r.version)
		}
	}
}

func TestUnknownReleases(t *testing.T) {
	t.Parallel()

	f := mustFacts(t)

	for version, want := range map[string]release{
		"1.13.9":      {kernel: "6.18.44-talos", containerd: line{2, 2}},
		"1.13.99":     {containerd: line{2, 2}},
		"1.14.0-rc.1": {containerd: line{2, 3}},
		"1.99.0":      {containerd: line{2, 3}},
	} {
		got := f.lookup(semver.MustParse(version))
		if got.kernel != want.kernel || got.containerd != want.containerd || got.version.String() != version {
			t.Errorf("%s: got %+v, want %+v", version, got, want)
		}
	}
}

func TestTablesAreStrict(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name   string
		header []string
	}{
		{"missing.tsv", []string{"x"}},
		{"releases.tsv", []string{"release", "kernel"}},
		{"releases.tsv", []string{"release", "kernel", "runc"}},
	} {
		if err := readTable(tt.name, tt.header, func([]string) error { return nil }); err == nil {
			t.Errorf("%s was read with the header %v", tt.name, tt.header)
		}
	}
}
