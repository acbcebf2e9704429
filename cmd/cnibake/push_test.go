package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cnibake/cnibake/builder/buildertest"
)

// TestPushScripts runs the stories of push against real registries.
func TestPushScripts(t *testing.T) {
	t.Parallel()

	plain, secure := buildertest.DockerRegistry(t, false), buildertest.DockerRegistry(t, true)

	testscript.Run(t, scripts(t, "testdata/script/push", map[string]string{
		"DIST": distDir(t), "PLAIN": plain.Host, "SECURE": secure.Host, "CA_FILE": secure.CAFile,
	}))
}

// push runs `cnibake push` and returns the digest that it printed.
func push(t *testing.T, layout, target string, flags ...string) string {
	t.Helper()

	var stdout, stderr bytes.Buffer

	if code := run(t.Context(), append([]string{"push", layout, target}, flags...), testEnviron(t), &stdout, &stderr); code != exitGood {
		t.Fatalf("pushing %s to %s: exit %d: %s", layout, target, code, stderr.String())
	}

	digest, ok := strings.CutPrefix(strings.TrimSpace(stdout.String()), target+"@")
	if !ok {
		t.Fatalf("push printed %q", stdout.String())
	}

	return digest
}

// Other people's tools see what was pushed as one index, and carry it on without a change.
func TestOthersReadWhatWasPushed(t *testing.T) {
	t.Parallel()
	buildertest.RequireTool(t, "skopeo")

	crane := buildCrane(t)
	registry := buildertest.DockerRegistry(t, false).Host

	for _, layout := range []string{"talos", "talos-readonly", "init-container"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()

			ref := registry + "/test/" + layout + ":v1"
			digest := push(t, filepath.Join(distDir(t), layout), ref)

			if raw := output(t, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+ref); fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(raw))) != digest {
				t.Errorf("push printed %s, skopeo reads %s", digest, raw)
			}

			validate := []string{"validate", "--remote", ref}
			if layout != "init-container" {
				validate = append(validate, "--fast") // it takes every layer for gzip
			}

			output(t, crane, validate...)

			// skopeo writes a layout that lists the index; what is pushed from it is the same again.
			copied := filepath.Join(t.TempDir(), "copied")
			output(t, "skopeo", "copy", "--all", "--preserve-digests", "--src-tls-verify=false", "docker://"+ref, "oci:"+copied+":v1")

			if got := push(t, copied, registry+"/nested/"+layout+":v1"); got != digest {
				t.Errorf("by way of skopeo's layout %s became %s", digest, got)
			}

			// And the other way.
			back := registry + "/back/" + layout + ":v1"
			output(t, "skopeo", "copy", "--all", "--preserve-digests", "--dest-tls-verify=false", "oci:"+copied+":v1", "docker://"+back)

			if got := strings.TrimSpace(output(t, crane, "digest", back)); got != digest {
				t.Errorf("skopeo pushed %s as %s", digest, got)
			}

			// One architecture of ours, as skopeo sees it: a layout that lists one image.
			single := filepath.Join(t.TempDir(), "single")
			output(t, "skopeo", "copy", "--preserve-digests", "oci:"+filepath.Join(distDir(t), layout)+":v1.9.1-1-arm64", "oci:"+single+":v1")
			push(t, single, registry+"/single/"+layout+":v1")

			want := digestOf(t, filepath.Join(distDir(t), layout), "v1.9.1-1-arm64")
			if got := strings.TrimSpace(output(t, crane, "digest", "--platform", "linux/arm64", registry+"/single/"+layout+":v1")); got != want {
				t.Errorf("arm64 alone became %s instead of %s", got, want)
			}
		})
	}
}

// A node pulls it by the printed reference.
func TestContainerdPullsWhatWasPushed(t *testing.T) {
	t.Parallel()

	ctr := startContainerd(t)
	ref := buildertest.DockerRegistry(t, false).Host + "/test/init:v1"
	ref += "@" + push(t, filepath.Join(distDir(t), "init-container"), ref)

	ctr("images", "pull", "--plain-http", "--platform", "linux/amd64", ref)

	if report := ctr("run", "--rm", ref, "push-test", "/install-cni-plugins", "version"); !strings.Contains(report, "install-cni-plugins") {
		t.Errorf("it says %q", report)
	}
}
