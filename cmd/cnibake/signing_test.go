package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// TestSignScripts runs the stories of signing in registries.
func TestSignScripts(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	writeKey(t, private, public)

	plain, secure := buildertest.DockerRegistry(t, false), buildertest.DockerRegistry(t, true)

	credentials := base64.StdEncoding.EncodeToString([]byte(secure.Username + ":" + secure.Password))
	config := `{"auths": {"` + secure.Host + `": {"auth": "` + credentials + `"}}}`

	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	testscript.Run(t, scripts(t, "testdata/script/sign", map[string]string{
		"DIST": distDir(t), "PLAIN": plain.Host, "SECURE": secure.Host, "CA_FILE": secure.CAFile,
		"PRIVATE": private, "PUBLIC": public, "DOCKER_CONFIG": dir,
	}))
}

// With a key, nothing is asked of the network: there is none here, not even the loopback interface.
func TestVerifyWithoutNetwork(t *testing.T) {
	t.Parallel()
	buildertest.RequireRoot(t)
	buildertest.RequireTool(t, "unshare")

	cnibake, err := exec.LookPath("cnibake")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	writeKey(t, private, public)

	dist := filepath.Join(dir, "dist")
	runs(t, exitGood, "build", "-q", "talos", "init-container", "--out", dist)

	offline := func(args ...string) string {
		return output(t, "unshare", append([]string{"-n", cnibake}, args...)...)
	}

	offline("attest", "-q", "--key", private, dist)
	offline("sign", "-q", "--key", private, dist)

	for _, name := range []string{"", "talos", "talos-amd64.tar", "init-container", "init-container-arm64.tar", "SHA256SUMS"} {
		if report := offline("verify", "--key", public, filepath.Join(dist, name)); !strings.Contains(report, "all of it by key sha256:") {
			t.Errorf("%q: %s", name, report)
		}
	}
}

// Without a key: a certificate for an identity, with and without a transparency log.
func TestSignWithIdentity(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	dist := filepath.Join(dir, "dist")
	runs(t, exitGood, "build", "-q", "talos", "--arch", "amd64", "--out", dist)

	authority := buildertest.NewAuthority(t, time.Now().Add(-time.Minute))
	identity := []string{"--fulcio-url", authority.URL, "--rekor-url", authority.URL, "--identity-token", filepath.Join(dir, "token")}

	for name, data := range map[string][]byte{
		"token": []byte(buildertest.Token("ci@example.com") + "\n"), "private.json": authority.TrustedRoot(false), "logged.json": authority.TrustedRoot(true),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	verify := func(code int, root, who, target string) string {
		t.Helper()

		return runs(t, code, "verify", "--certificate-identity-regexp", who, "--certificate-oidc-issuer", buildertest.OIDCIssuer,
			"--trusted-root", filepath.Join(dir, root), target)
	}

	layout := filepath.Join(dist, "talos")

	for _, command := range []string{"attest", "sign"} {
		runs(t, exitGood, append([]string{command, "--tlog-upload=false", layout}, identity...)...)
	}

	verify(exitGood, "private.json", "@example.com$", layout)
	verify(exitNo, "logged.json", "@example.com$", layout)
	verify(exitNo, "private.json", "^somebody$", layout)

	// By default it is logged. What was not, before, does no harm.
	for _, command := range []string{"attest", "sign"} {
		runs(t, exitGood, append([]string{command, dist}, identity...)...)
	}

	verify(exitGood, "logged.json", "@example.com$", layout)

	if report := verify(exitGood, "logged.json", "@example.com$", filepath.Join(dist, "talos-amd64.tar")); !strings.Contains(report, "all of it by identity @example.com$") {
		t.Errorf("report: %s", report)
	}
}

// TestSignAsCI finds the token that a CI system leaves in the environment. It sets the process's own, as
// the library that looks for it reads that one, so it is not parallel.
func TestSignAsCI(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")

	authority := buildertest.NewAuthority(t, time.Now().Add(-time.Minute))
	t.Setenv("SIGSTORE_ID_TOKEN", buildertest.Token("ci@example.com"))

	for name, data := range map[string][]byte{file: []byte("text\n"), filepath.Join(dir, "root.json"): authority.TrustedRoot(false)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	runs(t, exitGood, "sign", "--fulcio-url", authority.URL, "--tlog-upload=false", file)
	runs(t, exitGood, "verify", "--signature-only", "--certificate-identity", "ci@example.com", "--certificate-oidc-issuer", buildertest.OIDCIssuer,
		"--trusted-root", filepath.Join(dir, "root.json"), file)
}

// writeKey makes a key as openssl does: PKCS#8, without a password.
func writeKey(t *testing.T, private, public string) {
	t.Helper()

	privatePEM, publicPEM := buildertest.PEM(t, buildertest.NewKey(t))

	for name, data := range map[string][]byte{private: privatePEM, public: publicPEM} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runs runs a command, which must end with the code, and returns its stdout; when that is not good, its
// stderr.
func runs(t *testing.T, code int, args ...string) string {
	t.Helper()

	var stdout, stderr bytes.Buffer

	if got := run(t.Context(), args, testEnviron(t), &stdout, &stderr); got != code {
		t.Fatalf("cnibake %s: exit %d, want %d: %s%s", strings.Join(args, " "), got, code, stdout.String(), stderr.String())
	}

	if code != exitGood {
		return stderr.String()
	}

	return stdout.String()
}
