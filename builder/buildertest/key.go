package buildertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// NewKey returns a key of the kind that cosign makes.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	return key
}

// PEM returns a key as openssl writes it, PKCS#8 without a password, and its public key.
func PEM(t testing.TB, key crypto.Signer) (private, public []byte) {
	t.Helper()

	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}

	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

// Signer returns who signs with a key, and whom to trust to believe it.
func Signer(t testing.TB, key crypto.Signer) (*attest.Signer, *attest.Trust) {
	t.Helper()

	private, public := PEM(t, key)

	signer, err := attest.LoadKey(private, nil)
	if err != nil {
		t.Fatal(err)
	}

	trust, err := attest.TrustKey(public)
	if err != nil {
		t.Fatal(err)
	}

	return signer, trust
}

// Policy asks for everything of whom one trusts, and for the pin that Build builds.
func Policy(t testing.TB, trust *attest.Trust) attest.Policy {
	t.Helper()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	return attest.Policy{
		Trust:       trust,
		Pins:        []payload.Pin{{Version: pin.Version, Module: pin.Module.Path, Sum: pin.Module.Sum}},
		Inspect:     builder.ImageContent,
		InspectFile: builder.FileContent,
	}
}
