package cosign

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
)

// workshop has both programs, a key pair of cosign's making, a build that is not signed, and a registry.
type workshop struct {
	t        *testing.T
	dir      string
	cosign   string
	cnibake  string
	dist     string
	registry string
}

func open(t *testing.T) *workshop {
	t.Helper()

	dir := t.TempDir()
	w := &workshop{t: t, dir: dir, cosign: filepath.Join(dir, "bin-cosign"), cnibake: filepath.Join(dir, "bin-cnibake"), dist: filepath.Join(dir, "dist")}

	w.run(".", "go", "build", "-o", w.cosign, "github.com/sigstore/cosign/v2/cmd/cosign")
	w.run("../..", "go", "build", "-o", w.cnibake, "./cmd/cnibake")
	w.run(dir, w.cnibake, "build", "-q", "talos", "--out", w.dist)
	w.run(dir, w.cosign, "generate-key-pair")

	if err := os.WriteFile(filepath.Join(dir, "trusted-root.json"), []byte(emptyRoot), 0o644); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	w.registry = strings.TrimPrefix(server.URL, "http://")

	return w
}

// try runs a program as somebody who has the key's password and no settings of his own.
func (w *workshop) try(dir, name string, args ...string) (string, error) {
	var stderr bytes.Buffer

	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=a password", "DOCKER_CONFIG="+w.dir)

	out, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}

	return string(out), nil
}

func (w *workshop) run(dir, name string, args ...string) string {
	w.t.Helper()

	out, err := w.try(dir, name, args...)
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}

	return out
}

// push publishes the layout and returns the repository and the digests of the index and its images.
func (w *workshop) push(name string) (string, []string) {
	w.t.Helper()

	repository := w.registry + "/" + name
	pushed := strings.TrimSpace(w.run(w.dir, w.cnibake, "push", "-q", "dist/talos", repository+":v1"))
	_, index, _ := strings.Cut(pushed, "@")

	var statement struct {
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					Digest      map[string]string
					Annotations map[string]any
				}
			}
		}
	}

	if err := json.Unmarshal(w.statement(index), &statement); err != nil {
		w.t.Fatal(err)
	}

	digests := []string{index}

	for _, dependency := range statement.Predicate.BuildDefinition.ResolvedDependencies {
		if dependency.Annotations["kind"] == "image" {
			digests = append(digests, "sha256:"+dependency.Digest["sha256"])
		}
	}

	if len(digests) != 3 {
		w.t.Fatalf("the build has %q", digests)
	}

	return repository, digests
}

// statement is what the build stated about the artifact with this digest.
func (w *workshop) statement(digest string) []byte {
	w.t.Helper()

	data, err := os.ReadFile(filepath.Join(w.dist, "talos.provenance.jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}

	for line := range bytes.Lines(data) {
		if bytes.Contains(line[:bytes.Index(line, []byte("predicateType"))], []byte(strings.TrimPrefix(digest, "sha256:"))) {
			return line
		}
	}

	w.t.Fatalf("nothing is stated about %s", digest)

	return nil
}

// Flags with which cosign asks no transparency log. For bundles it insists on a trusted root, which a key
// does not need: an empty one keeps it from fetching sigstore's.
var (
	legacy  = []string{"--key", "cosign.pub", "--insecure-ignore-tlog=true", "--private-infrastructure=true"}
	bundles = append([]string{"--new-bundle-format", "--trusted-root", "trusted-root.json"}, legacy...)
)

const emptyRoot = `{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`

func TestCosignVerifiesWhatCnibakeSigns(t *testing.T) {
	w := open(t)

	w.run(w.dir, w.cnibake, "attest", "--key", "cosign.key", "dist")
	w.run(w.dir, w.cnibake, "sign", "--key", "cosign.key", "dist")

	repository, digests := w.push("signed")

	// Once more in the registry, which must not add a second signature.
	w.run(w.dir, w.cnibake, "sign", "--key", "cosign.key", repository+":v1")

	// cosign looks at the tags only where there is no bundle: where a copy left them behind.
	tags := w.copyTags(repository, digests)

	for i, digest := range digests {
		for _, test := range []struct {
			ref, format string
			flags       []string
		}{{tags + "@" + digest, "legacy", legacy}, {repository + "@" + digest, "bundle", bundles}} {
			cosign := func(command ...string) (string, error) {
				return w.try(w.dir, w.cosign, append(append(command, test.flags...), test.ref)...)
			}

			out, err := cosign("verify")
			if err != nil {
				t.Errorf("%s: %v\n%s", test.ref, err, out)
			}

			var claims []any
			if err := json.Unmarshal([]byte(out), &claims); test.format == "legacy" && (err != nil || len(claims) != 1) {
				t.Errorf("%s has %d signatures: %v", test.ref, len(claims), err)
			}

			for predicateType, want := range map[string]bool{"slsaprovenance1": true, "spdxjson": i > 0, "vuln": false} {
				out, err := cosign("verify-attestation", "--type", predicateType)
				if got := err == nil; got != want {
					t.Errorf("%s: %s %s: %v\n%s", test.ref, test.format, predicateType, err, out)
				}
			}
		}
	}

	w.verifyFiles()
}

// copyTags copies the images and what is attached to them by tag, as tools do that know nothing of
// referrers, and returns where to.
func (w *workshop) copyTags(repository string, digests []string) string {
	w.t.Helper()

	to := w.registry + "/tags"

	tags := []string{"v1"}
	for _, digest := range digests {
		tag := strings.ReplaceAll(digest, ":", "-")
		tags = append(tags, tag+".sig", tag+".att")
	}

	for _, tag := range tags {
		if err := crane.Copy(repository+":"+tag, to+":"+tag); err != nil {
			w.t.Fatal(err)
		}
	}

	return to
}

func (w *workshop) verifyFiles() {
	w.t.Helper()

	cosign := func(args ...string) {
		w.run(w.dir, w.cosign, append(args[:1:1], append(bundles, args[1:]...)...)...)
	}

	for _, file := range []string{"dist/talos-amd64.tar", "dist/SHA256SUMS"} {
		cosign("verify-blob", "--bundle", file+".sigstore.json", file)
	}

	// A line of the statements is a bundle.
	lines, err := os.ReadFile(filepath.Join(w.dist, "talos-amd64.tar.intoto.jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}

	first, second, _ := bytes.Cut(lines, []byte("\n"))

	for predicateType, line := range map[string][]byte{"slsaprovenance1": first, "spdxjson": second} {
		if err := os.WriteFile(filepath.Join(w.dir, "line.json"), line, 0o644); err != nil {
			w.t.Fatal(err)
		}

		cosign("verify-blob-attestation", "--type", predicateType, "--bundle", "line.json", "dist/talos-amd64.tar")
	}
}

func TestCnibakeVerifiesWhatCosignSigns(t *testing.T) {
	w := open(t)

	for _, test := range []struct{ name, flag string }{{"legacy", "--new-bundle-format=false"}, {"bundle", "--new-bundle-format=true"}} {
		repository, digests := w.push(test.name)
		ref := repository + "@" + digests[0]

		verify := func(flags ...string) (string, error) {
			return w.try(w.dir, w.cnibake, append(append([]string{"verify", "--key", "cosign.pub", "-o", "json"}, flags...), ref)...)
		}

		if out, err := verify("--signature-only"); err == nil || !strings.Contains(out, "not signed") {
			t.Errorf("%s: not signed yet: %v\n%s", test.name, err, out)
		}

		w.run(w.dir, w.cosign, "sign", "--key", "cosign.key", "--tlog-upload=false", "--recursive", test.flag, ref)

		out, err := verify("--signature-only")
		if err != nil || strings.Count(out, `"`+test.name+`"`) != len(digests) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}

		if out, err := verify(); err == nil || !strings.Contains(out, "no attestation https://slsa.dev/provenance/v1") {
			t.Errorf("%s: without attestations: %v\n%s", test.name, err, out)
		}

		w.attest(repository, digests, test.flag)

		if out, err := verify(); err != nil {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}

	w.run(w.dist, w.cosign, "sign-blob", "--key", "../cosign.key", "--tlog-upload=false", "--new-bundle-format", "--bundle", "SHA256SUMS.sigstore.json", "--yes", "SHA256SUMS")
	w.run(w.dist, w.cnibake, "verify", "--key", "../cosign.pub", "SHA256SUMS")
}

// attest lets cosign attach what the build stated.
func (w *workshop) attest(repository string, digests []string, flag string) {
	w.t.Helper()

	attach := func(digest, predicateType, predicate string) {
		w.run(w.dir, w.cosign, "attest", "--key", "cosign.key", "--tlog-upload=false", flag, "--type", predicateType, "--predicate", predicate, repository+"@"+digest)
	}

	for i, digest := range digests {
		var statement struct{ Predicate json.RawMessage }
		if err := json.Unmarshal(w.statement(digest), &statement); err != nil {
			w.t.Fatal(err)
		}

		predicate := filepath.Join(w.dir, "predicate.json")
		if err := os.WriteFile(predicate, statement.Predicate, 0o644); err != nil {
			w.t.Fatal(err)
		}

		attach(digest, "slsaprovenance1", predicate)

		if i > 0 {
			attach(digest, "spdxjson", filepath.Join(w.dist, "talos-"+[]string{"amd64", "arm64"}[i-1]+".spdx.json"))
		}
	}
}
