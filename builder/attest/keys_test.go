package attest_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/cosign"
	cbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigs "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
)

// keys are of every kind that is taken, with how they are written.
func keys(t *testing.T) map[string]crypto.Signer {
	t.Helper()

	all := make(map[string]crypto.Signer)

	for name, curve := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}

		all[name] = key
	}

	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}

	all["Ed25519"], all["RSA"] = edwards, rivest

	return all
}

// file is a file with some content.
func file(t *testing.T, content string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestEveryKindOfKeySigns(t *testing.T) {
	t.Parallel()

	for kind, key := range keys(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			signer, trust := buildertest.Signer(t, key)
			path := file(t, "content")

			if _, err := attest.SignFile(t.Context(), path, signer); err != nil {
				t.Fatal(err)
			}

			if _, err := attest.VerifyFile(t.Context(), path, attest.Policy{Trust: trust}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Others choose the hash by the curve, and Ed25519 with a hash before it.
func TestHashesOfOthersAreKnown(t *testing.T) {
	t.Parallel()

	for kind, key := range keys(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			_, trust := buildertest.Signer(t, key)

			other, err := sigs.LoadDefaultSignerVerifier(key, options.WithED25519ph())
			if err != nil {
				t.Fatal(err)
			}

			out := file(t, "content")

			digest, _, err := payload.DigestFile(out)
			if err != nil {
				t.Fatal(err)
			}

			statement, err := attest.NewStatement("file", digest, "https://example.org/any", []byte(`{}`)).Encode()
			if err != nil {
				t.Fatal(err)
			}

			envelope, err := dsse.WrapSigner(other, types.IntotoPayloadType).SignMessage(bytes.NewReader(statement))
			if err != nil {
				t.Fatal(err)
			}

			text, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
			if err != nil {
				t.Fatal(err)
			}

			bundle, err := cbundle.MakeNewBundle(key.Public(), nil, statement, envelope, text, nil)
			if err != nil {
				t.Fatal(err)
			}

			if err := trust.VerifyBundle(t.Context(), bundle); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoadKey(t *testing.T) {
	t.Parallel()

	all := keys(t)
	p256, ok := all["P-256"].(*ecdsa.PrivateKey)
	rivest, okToo := all["RSA"].(*rsa.PrivateKey)

	if !ok || !okToo {
		t.Fatal("no keys")
	}

	sec1, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}

	encrypted, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}

	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}

	private, public := buildertest.PEM(t, p256)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	password := func(text string) func() ([]byte, error) {
		return func() ([]byte, error) { return []byte(text), nil }
	}

	for title, test := range map[string]struct {
		text     []byte
		password func() ([]byte, error)
		want     string // empty: it is loaded
	}{
		"PKCS#8":                    {text: private},
		"SEC 1":                     {text: block("EC PRIVATE KEY", sec1)},
		"PKCS#1":                    {text: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rivest))},
		"cosign's":                  {encrypted.PrivateBytes, password("secret"), ""},
		"cosign's older":            {bytes.ReplaceAll(encrypted.PrivateBytes, []byte("SIGSTORE"), []byte("COSIGN")), password("secret"), ""},
		"wrong password":            {encrypted.PrivateBytes, password("other"), "COSIGN_PASSWORD"},
		"no password":               {encrypted.PrivateBytes, func() ([]byte, error) { return nil, errors.New("nobody there") }, "nobody there"},
		"public":                    {text: public, want: `"PUBLIC KEY" is no private key`},
		"text":                      {text: []byte("hello"), want: "not a PEM file"},
		"empty":                     {want: "not a PEM file"},
		"garbage in PEM":            {text: block("PRIVATE KEY", []byte("x")), want: "asn1"},
		"too weak":                  {text: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(weak)), want: "too weak"},
		"garbage in encrypted PEM":  {block("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("{")), password("secret"), "decrypting"},
		"certificate instead of it": {text: block("CERTIFICATE", []byte("x")), want: "no private key"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			_, err := attest.LoadKey(test.text, test.password)

			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}

	for _, text := range [][]byte{private, []byte("hello"), nil} {
		if _, err := attest.TrustKey(text); err == nil {
			t.Errorf("%q is no public key", text)
		}
	}
}
