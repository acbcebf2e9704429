package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/profiles"
)

// script runs a script of hack/ and returns what it prints.
func script(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	buildertest.RequireTool(t, "bash")

	file, err := filepath.Abs("../../hack/" + name)
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), file, args...)
	out, err := cmd.CombinedOutput()

	return string(out), err
}

// repository is a clone that a test makes.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()

	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")

	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()

	cmd := exec.CommandContext(r.t.Context(), buildertest.RequireTool(r.t, "git"), append([]string{"-C", r.dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.test",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.test")

	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}

	return strings.TrimSpace(string(out))
}

// commit writes a file, commits it and returns the commit's short name; tags are put on it.
func (r repository) commit(name, content string, tags ...string) string {
	r.t.Helper()

	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}

	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}

	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "x")

	for _, tag := range tags {
		r.git("tag", "-a", "-m", tag, tag)
	}

	return r.git("rev-parse", "--short=7", "HEAD")
}

func pkgfile(version string) string {
	return "format: v1alpha2\n\nvars:\n  # renovate: datasource=github-releases depName=containernetworking/plugins\n  cni_version: " + version +
		"\n  cni_sha256: 00\n  flannel_cni_version: v9.9.9-flannel1\n"
}

// The commit counts, not the tag that its name starts with, and what is not at hand is not inferred.
func TestRefreshReleases(t *testing.T) {
	t.Parallel()

	pkgs := newRepository(t)
	pkgs.commit("kernel/build/config-amd64", "CONFIG_BRIDGE=y\nCONFIG_IPVLAN=m\nCONFIG_NET_VRF=m\n# CONFIG_IFB is not set\n")
	pkgs.commit("Pkgfile", pkgfile("v1.8.0"), "v1.12.0")
	later := pkgs.commit("Pkgfile", pkgfile("v1.9.0"))
	withIFB := pkgs.commit("kernel/build/config-amd64", "CONFIG_BRIDGE=y\nCONFIG_IFB=m\n")
	pkgs.commit("Pkgfile", "vars:\n  other: x\n", "v1.13.0")

	talos := newRepository(t)
	gendata := "pkg/machinery/gendata/data/pkgs"
	talos.commit(gendata, "v1.12.0", "v1.12.0-beta.0")
	talos.commit(gendata, "v1.12.0-23-g"+later, "v1.12.0")
	talos.commit(gendata, "v1.12.0-24-g"+withIFB+"\n", "v1.12.10")
	// Not there: its row stays, whatever it says.
	talos.commit(gendata, "v1.14.0-15-g1234567", "v1.14.0")
	// No row, and none is made up.
	talos.commit(gendata, "v1.14.0-99-g7654321", "v1.14.2")
	talos.commit(gendata, "v1.13.0", "v1.13.0")
	talos.git("rm", "-q", gendata)
	talos.commit("Makefile", "PKGS ?= v1.12.0-23-g"+later+"\n", "v1.9.0", "v1.8.9", "not-a-release", "v1.12.0-rc.0-dirty")

	kubeovn := newRepository(t)
	base := "dist/images/Dockerfile.base"
	kubeovn.commit(base, "FROM a\nENV CNI_PLUGINS_VERSION=\"v1.5.1\"\n", "v1.12.31")
	kubeovn.commit(base, "FROM a\nARG CNI_PLUGINS_VERSION=v1.9.1\nRUN x ${CNI_PLUGINS_VERSION}\n", "v1.15.9", "v1.11.9")
	kubeovn.commit(base, "FROM a\nRUN build-it-yourself\n", "v1.16.0")

	out := t.TempDir()
	drivers := filepath.Join(out, "drivers.tsv")

	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(out, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	write("talos.tsv", "# refreshed: 2020-01-01\nrelease\tplugins\torigin\tstate\nv1.12.0\tv1.8.0\twrong\tinferred\nv1.14.0\tv1.9.1\tv1.14.0-15-g1234567\tinferred\n")

	said, err := script(t, "refresh-releases", "--talos", talos.dir, "--pkgs", pkgs.dir, "--kube-ovn", kubeovn.dir, "--out", out, "--drivers", drivers, "--date", "2026-11-29")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}

	for file, want := range map[string]string{
		"talos.tsv": "release\tplugins\torigin\tstate\n" +
			"v1.9.0\tv1.9.0\tv1.12.0-23-g" + later + "\tread\n" +
			"v1.12.0-beta.0\tv1.8.0\tv1.12.0\tread\n" +
			"v1.12.0\tv1.9.0\tv1.12.0-23-g" + later + "\tread\n" +
			"v1.12.10\tv1.9.0\tv1.12.0-24-g" + withIFB + "\tread\n" +
			"v1.14.0\tv1.9.1\tv1.14.0-15-g1234567\tinferred\n",
		"kube-ovn.tsv": "release\tplugins\torigin\tstate\n" +
			"v1.12.31\tv1.5.1\tdist/images/Dockerfile.base\tread\n" +
			"v1.15.9\tv1.9.1\tdist/images/Dockerfile.base\tread\n",
		"drivers.tsv": "talos_release\tbridge\tmacvlan\tipvlan\tvlan\tvrf\tveth\tifb\ttbf\tbridge_vlan_filtering\tdummy\n" +
			"v1.9.0\tbuiltin\tabsent\tmodule\tabsent\tmodule\tabsent\tabsent\tabsent\tabsent\tabsent\n" +
			"v1.12.0\tbuiltin\tabsent\tmodule\tabsent\tmodule\tabsent\tabsent\tabsent\tabsent\tabsent\n" +
			"v1.12.10\tbuiltin\tabsent\tabsent\tabsent\tabsent\tabsent\tmodule\tabsent\tabsent\tabsent\n",
	} {
		data, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}

		header, table, _ := strings.Cut(string(data), "\nrelease\t")
		if file == "drivers.tsv" {
			header, table, _ = strings.Cut(string(data), "\ntalos_release\t")
			table = "talos_release\t" + table
		} else {
			table = "release\t" + table
		}

		if !strings.Contains(header, "2026-11-29") {
			t.Errorf("%s lacks the date:\n%s", file, header)
		}

		if diff := cmp.Diff(want, table); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", file, diff, said)
		}
	}

	for _, want := range []string{"talos v1.14.0: ", "lacks v1.14.0-15-g1234567; its row stays as it is", "talos v1.14.2: ", "talos v1.13.0: no cni_version in the Pkgfile of v1.13.0"} {
		if !strings.Contains(said, want) {
			t.Errorf("does not say %q:\n%s", want, said)
		}
	}

	if said, err := script(t, "refresh-releases", "--talos", talos.dir); err == nil || !strings.Contains(said, "--talos and --pkgs go together") {
		t.Errorf("%v: %s", err, said)
	}

	if said, err := script(t, "refresh-releases", "--kube-ovn", out); err == nil || !strings.Contains(said, "not a git repository") {
		t.Errorf("%v: %s", err, said)
	}
}

// The pins beside the default one are what hack/pin writes.
func TestPinScript(t *testing.T) {
	t.Parallel()

	for _, version := range profiles.Pins() {
		if version == profiles.DefaultPin {
			continue
		}

		out := filepath.Join(t.TempDir(), "pin.yaml")

		said, err := script(t, "pin", version, "--out", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}

		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}

		want, err := os.ReadFile("../../profiles/pins/" + version + ".yaml")
		if err != nil {
			t.Fatal(err)
		}

		// Whoever has the release's files may have added their sums.
		pin, err := profiles.LoadPin(version)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(string(want), string(got)); diff != "" && len(pin.Release.SHA256) == 0 {
			t.Errorf("%s (-committed +hack/pin):\n%s", version, diff)
		}
	}
}

// What changed upstream is named, and release sums come from files.
func TestPinScriptCompares(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()

	previous, err := os.ReadFile("../../profiles/pins/" + profiles.DefaultPin + ".yaml")
	if err != nil {
		t.Fatal(err)
	}

	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}

		return name
	}

	// As if the pin before knew another upstream: one plugin more, one less, one elsewhere.
	changed := strings.NewReplacer(
		"  - {name: bandwidth, kind: meta, package: plugins/meta/bandwidth}\n", "  - {name: flannel, kind: meta, package: plugins/meta/flannel}\n",
		"package: plugins/main/bridge}", "package: plugins/main/bridge/v1}",
		"kind: main, package: plugins/main/vlan", "kind: meta, package: plugins/meta/vlan",
	).Replace(string(previous))

	sum := strings.Repeat("a1", 32)
	out := filepath.Join(dir, "out.yaml")

	said, err := script(t, "pin", profiles.DefaultPin, "--previous", write("previous.yaml", changed), "--out", out,
		"--release", "amd64="+write("amd64.sha256", sum+"  cni-plugins-linux-amd64-"+profiles.DefaultPin+".tgz\n"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}

	for _, want := range []string{"new: bandwidth\n", "gone: flannel\n", "moved: bridge vlan\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("does not say %q:\n%s", want, said)
		}
	}

	pin, err := profiles.LoadPin(out)
	if err != nil {
		t.Fatal(err)
	}

	if pin.Release.SHA256["amd64"] != sum || len(pin.Release.SHA256) != 1 {
		t.Errorf("release sums: %v", pin.Release.SHA256)
	}

	// A new plugin is not carried before somebody decides so.
	found := false
	for _, left := range pin.LeftOut {
		found = found || left.Name == "bandwidth" && strings.Contains(left.Reason, "not decided yet")
	}

	if !found {
		t.Errorf("left out: %+v", pin.LeftOut)
	}

	standard, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(standard.Module, pin.Module); diff != "" {
		t.Errorf("module (-by hand +hack/pin):\n%s", diff)
	}

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"1.9.1"}, "usage: hack/pin VERSION"},
		{[]string{profiles.DefaultPin, "--release", "mips=x"}, "use ARCH=FILE"},
		{[]string{profiles.DefaultPin, "--release", "amd64=" + write("page.html", "<html>404</html>")}, "does not start with 64 hexadecimal digits"},
		{[]string{profiles.DefaultPin, "--release", "arm64=" + filepath.Join(dir, "amd64.sha256")}, "not of cni-plugins-linux-arm64"},
		{[]string{profiles.DefaultPin, "--release", "amd64=" + write("cut.tgz", "\x1f\x8b\x08\x00cut")}, "not a complete archive"},
	} {
		if said, err := script(t, "pin", append(test.args, "--out", filepath.Join(dir, "no.yaml"))...); err == nil || !strings.Contains(said, test.want) {
			t.Errorf("%v: %v, %s", test.args, err, said)
		}
	}

	left, err := filepath.Glob(filepath.Join(dir, ".pin.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
