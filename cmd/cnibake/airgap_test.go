package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/buildertest"
)

// carried is what crosses the gap in these tests: the bundle of a build, attested and signed.
type carried struct {
	dist, bundle string
	// private and public are the files of the key.
	private, public string
	images          []airgap.Image
}

var shipment struct {
	once sync.Once
	carried
}

// newShipment returns it, made once for all tests. It is for reading only.
func newShipment(t *testing.T) carried {
	t.Helper()

	shipment.once.Do(func() {
		// As distDir, it outlives the first test that asks.
		dir := distDir(t) + "-signed"
		s := carried{dist: dir, bundle: dir + ".tar", private: dir + ".pem", public: dir + ".pub"}

		runs(t, exitGood, "build", "-q", "talos-readonly", "init-container", "--out", dir)
		writeKey(t, s.private, s.public)
		runs(t, exitGood, "attest", "--key", s.private, dir)
		runs(t, exitGood, "sign", "--key", s.private, dir)

		var created airgap.Created
		if err := json.Unmarshal([]byte(runs(t, exitGood, "bundle", "create", "-f", s.bundle, dir, "-o", "json")), &created); err != nil {
			t.Fatal(err)
		}

		s.images = created.Images
		shipment.carried = s
	})

	if shipment.bundle == "" {
		t.Fatal("there is no bundle")
	}

	return shipment.carried
}

// TestAirGapScripts runs the stories of bundles and catalogues, with a registry on the other side.
func TestAirGapScripts(t *testing.T) {
	t.Parallel()

	s := newShipment(t)
	other := filepath.Join(t.TempDir(), "other")
	writeKey(t, other+".pem", other+".pub")

	secure := buildertest.DockerRegistry(t, true)

	testscript.Run(t, scripts(t, "testdata/script/airgap", map[string]string{
		"UNSIGNED": distDir(t), "DIST": s.dist, "BUNDLE": s.bundle, "COSIGN_KEY": s.private, "COSIGN_PUB": s.public, "OTHER_PUB": other + ".pub",
		"REGISTRY": buildertest.DockerRegistry(t, false).Host,
		"SECURE":   secure.Host, "CA_FILE": secure.CAFile,
	}))
}

// skopeo takes images out of the bundle, as they are, and crane finds in a registry what push put there.
func TestOthersReadTheBundle(t *testing.T) {
	t.Parallel()
	buildertest.RequireTool(t, "skopeo")

	s := newShipment(t)
	crane := buildCrane(t)
	registry := buildertest.DockerRegistry(t, false).Host
	pushed := runs(t, exitGood, "bundle", "push", "-q", s.bundle, registry+"/pushed")

	for _, image := range s.images {
		if raw := output(t, "skopeo", "inspect", "--raw", "oci-archive:"+s.bundle+":"+image.Name); fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(raw))) != image.Digest {
			t.Errorf("%s: skopeo reads\n%s", image.Name, raw)
		}

		repository := strings.TrimPrefix(image.Name, "ghcr.io/")
		copied := registry + "/copied/" + repository
		output(t, "skopeo", "copy", "--all", "--preserve-digests", "--dest-tls-verify=false", "oci-archive:"+s.bundle+":"+image.Name, "docker://"+copied)

		target := registry + "/pushed/" + repository
		if !strings.Contains(pushed, target+"@"+image.Digest+"\n") {
			t.Errorf("push does not list %s@%s:\n%s", target, image.Digest, pushed)
		}

		for _, ref := range []string{copied, target} {
			if got := strings.TrimSpace(output(t, crane, "digest", ref)); got != image.Digest {
				t.Errorf("%s has %s, want %s", ref, got, image.Digest)
			}
		}

		// And back: an archive that skopeo writes of what was pushed is the same image.
		archive := filepath.Join(t.TempDir(), "archive.tar")
		output(t, "skopeo", "copy", "--all", "--preserve-digests", "--src-tls-verify=false", "docker://"+target, "oci-archive:"+archive+":"+image.Name)

		if got := push(t, archive, registry+"/back/"+repository); got != image.Digest {
			t.Errorf("by way of skopeo %s became %s", image.Digest, got)
		}
	}

	// Pushed from the layout, without a bundle, it is the same image.
	last := s.images[len(s.images)-1]
	if got := push(t, filepath.Join(s.dist, "init-container"), registry+"/direct/init:v1"); got != last.Digest {
		t.Errorf("the layout is pushed as %s, and was bundled as %s", got, last.Digest)
	}

	// The layout is one for any reader, and the sums are sha256sum's.
	dir := t.TempDir()
	output(t, "tar", "-xf", s.bundle, "-C", dir)
	output(t, "sh", "-c", `cd "$1" && sha256sum -c --quiet --strict SHA256SUMS`, "sh", dir)
	output(t, crane, "validate", "--remote", registry+"/pushed/cnibake/cni-plugins-readonly:v1.9.1-1", "--fast")
}

// A node imports the images from the bundle and runs the one that is to be run; nothing is pulled.
func TestContainerdImportsTheBundle(t *testing.T) {
	t.Parallel()

	ctr := startContainerd(t)
	s := newShipment(t)
	dest := t.TempDir()

	ctr("images", "import", s.bundle)

	var want string
	for _, image := range s.images {
		want += image.Name + "\n"

		if listed := ctr("images", "ls", "name=="+image.Name); !strings.Contains(listed, image.Digest) {
			t.Errorf("imported as\n%s", listed)
		}
	}

	got := strings.Split(strings.TrimSpace(ctr("images", "ls", "-q")), "\n")
	if len(got) != len(s.images) {
		t.Errorf("imported %q, want\n%s", got, want)
	}

	report := ctr("run", "--rm", "--mount", "type=bind,src="+dest+",dst=/host/opt/cni/bin,options=rbind:rw",
		"ghcr.io/cnibake/install-cni-plugins:v1.9.1-1", "bundle-test")
	if count := strings.Count(report, ": installed"); count != len(theSet) {
		t.Errorf("%d plugins were installed, want %d:\n%s", count, len(theSet), report)
	}
}

// Everything on the far side works where there is no network but the loopback interface.
func TestFarSideHasNoNetwork(t *testing.T) {
	t.Parallel()
	buildertest.RequireRoot(t)

	for _, tool := range []string{"unshare", "ip", "bash"} {
		buildertest.RequireTool(t, tool)
	}

	buildertest.RequireTool(t, "docker-registry")

	s := newShipment(t)
	dir := t.TempDir()

	config := fmt.Sprintf(`version: 0.1
storage: {filesystem: {rootdirectory: %q}}
http: {addr: "127.0.0.1:5000"}
`, filepath.Join(dir, "storage"))
	if err := os.WriteFile(filepath.Join(dir, "registry.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	const script = `
set -eu
ip link set lo up
test "$(ip -o link | wc -l)" = 1
OTEL_TRACES_EXPORTER=none docker-registry serve "$1/registry.yml" >"$1/log" 2>&1 &
registry=$!
trap 'kill $registry' EXIT
tries=0
until (exec 3<>/dev/tcp/127.0.0.1/5000) 2>/dev/null; do
	tries=$((tries + 1))
	test $tries -lt 600
	sleep 0.1
done
cnibake bundle verify -q "$2" --key "$3"
cnibake bundle push -q "$2" 127.0.0.1:5000/mirror | tee "$1/images"
while read -r image; do
	cnibake verify -q "$image" --key "$3"
done <"$1/images"
cnibake catalog -q --talos v1.13.9 --out "$1/catalog" $(grep -v install "$1/images")
cnibake sign -q --key "$4" "$1/catalog/v1.13.9"
cnibake push -q "$1/catalog/v1.13.9" 127.0.0.1:5000/siderolabs/extensions:v1.13.9
cnibake verify -q --signature-only --key "$3" 127.0.0.1:5000/siderolabs/extensions:v1.13.9
`

	out := output(t, "unshare", "-n", "bash", "-c", script, "bash", dir, s.bundle, s.public, s.private)

	for _, image := range s.images {
		if !strings.Contains(out, "127.0.0.1:5000/mirror/"+strings.TrimPrefix(image.Reference(), "ghcr.io/")) {
			t.Errorf("%s is not listed:\n%s", image.Name, out)
		}
	}
}

// Standard output takes a bundle, and other writers of it are told apart from damage.
func TestBundleOnStandardOutput(t *testing.T) {
	t.Parallel()

	s := newShipment(t)

	var stdout bytes.Buffer

	if code := run(t.Context(), []string{"bundle", "create", "-q", "-f", "-", s.dist}, testEnviron(t), &stdout, io.Discard); code != exitGood {
		t.Fatalf("exit %d", code)
	}

	file, err := os.ReadFile(s.bundle)
	if err != nil {
		t.Fatal(err)
	}

	if !bytes.Equal(file, stdout.Bytes()) {
		t.Error("standard output and the file differ")
	}

	// A compressed one is read as it is.
	buildertest.RequireTool(t, "zstd")

	compressed := filepath.Join(t.TempDir(), "bundle.tar.zst")
	output(t, "zstd", "-q", "-1", "--long=27", s.bundle, "-o", compressed)
	runs(t, exitGood, "bundle", "verify", "-q", compressed, "--key", s.public)
}

// The commands of the guide, which are its indented lines, run in their order as they stand; only the
// registry has another name.
func TestAirGapGuide(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("builds, signs and carries everything once more")
	}

	guide, err := os.ReadFile("../../docs/airgap.md")
	if err != nil {
		t.Fatal(err)
	}

	var script strings.Builder

	fenced := false

	for line := range strings.Lines(string(guide)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}

		if command, ok := strings.CutPrefix(line, "    "); ok && !fenced {
			script.WriteString(command)
		}
	}

	if strings.Count(script.String(), "cnibake ") < 12 {
		t.Fatalf("the guide has few commands:\n%s", script.String())
	}

	dir := t.TempDir()
	writeKey(t, filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub"))

	registry := buildertest.DockerRegistry(t, false).Host
	// Only in a checkout does an unreleased cnibake find the installer.
	commands := strings.NewReplacer("registry.example", registry, "cnibake build ", `(cd "$REPOSITORY" && exec cnibake build --out "$OLDPWD/dist" `).Replace(script.String())
	commands = strings.Replace(commands, "talos-readonly init-container\n", "talos-readonly init-container)\n", 1)

	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer

	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = dir, testEnviron(t, "REPOSITORY="+repository)
	cmd.Stdout, cmd.Stderr = &out, &out

	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}

	for file, want := range map[string]string{
		"profile.yaml":   "imageRef: " + registry + "/cnibake/cni-plugins-readonly:v1.9.1-1@sha256:",
		"offline.yaml":   "tarballPath: files/talos-readonly-amd64.tar",
		"daemonset.yaml": registry + "/cnibake/install-cni-plugins:v1.9.1-1@sha256:",
		"k3s.yaml":       "imagePullPolicy: Never",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q: %v\n%s", file, want, err, data)
		}
	}

	copyAsFactory(t, registry, "siderolabs/extensions:v1.13.9")
}

// copyAsFactory mirrors a catalogue and what it lists the way the copy script of Image Factory does: each image and,
// under the legacy tag alone, its signature.
func copyAsFactory(t *testing.T, registry, catalogue string) {
	t.Helper()

	crane := buildCrane(t)
	mirror := buildertest.DockerRegistry(t, false).Host

	mirrorImage := func(image string) {
		t.Helper()

		source := registry + "/" + image
		repository, _, _ := strings.Cut(image, ":")
		tag := strings.Replace(strings.TrimSpace(output(t, crane, "digest", source)), ":", "-", 1) + ".sig"

		output(t, crane, "cp", source, mirror+"/"+image)
		output(t, crane, "cp", registry+"/"+repository+":"+tag, mirror+"/"+repository+":"+tag)
	}

	mirrorImage(catalogue)

	lines := strings.Fields(output(t, "sh", "-c", `"$1" export "$2" - | tar x -O image-digests`, "sh", crane, registry+"/"+catalogue))
	if len(lines) == 0 {
		t.Fatal("the catalogue lists nothing")
	}

	for _, line := range lines {
		image := strings.TrimPrefix(line, registry+"/")
		tagged, _, _ := strings.Cut(image, "@")
		mirrorImage(tagged)

		if got := strings.TrimSpace(output(t, crane, "digest", mirror+"/"+tagged)); !strings.HasSuffix(line, "@"+got) {
			t.Errorf("%s was copied as %s", line, got)
		}
	}
}
