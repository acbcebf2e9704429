package imager_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cnibake/cnibake/hack/talos/artifact"
)

// sign returns a copy of a layout with signatures in it, beside the images.
func sign(t *testing.T, dir string) string {
	t.Helper()

	signed := filepath.Join(t.TempDir(), "signed")
	if err := os.CopyFS(signed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}

	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600); err != nil {
		t.Fatal(err)
	}

	if out, err := exec.CommandContext(t.Context(), artifact.Command(t), "sign", "--key", key, signed).CombinedOutput(); err != nil {
		t.Fatalf("cnibake sign: %v\n%s", err, out)
	}

	before, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}

	after, err := os.ReadFile(filepath.Join(signed, "index.json"))
	if err != nil || len(after) <= len(before) {
		t.Fatalf("signing has added nothing to index.json: %v", err)
	}

	return signed
}
