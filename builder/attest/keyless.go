package attest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigs "github.com/sigstore/sigstore/pkg/signature"
)

// Keyless returns a signer with a new key, for which a Fulcio certificate authority vouches: token, from
// an OIDC issuer that it knows, says whose it is. Certificates are good for minutes, so signatures have
// to be recorded in a transparency log, or verified at once.
func Keyless(ctx context.Context, fulcio, token string) (*Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	signer, err := sigs.LoadSigner(key, crypto.SHA256)
	if err != nil {
		return nil, err
	}

	authority := sign.NewFulcio(&sign.FulcioOptions{BaseURL: fulcio, Retries: 2})

	certificate, err := authority.GetCertificate(ctx, &keypair{key}, &sign.CertificateProviderOptions{IDToken: token})
	if err != nil {
		return nil, fmt.Errorf("asking %s for a certificate: %w", fulcio, err)
	}

	return &Signer{signer: signer, public: key.Public(), certificate: certificate}, nil
}

// keypair is how the library wants a P-256 key.
type keypair struct{ key *ecdsa.PrivateKey }

var _ sign.Keypair = (*keypair)(nil)

func (k *keypair) GetHashAlgorithm() protocommon.HashAlgorithm {
	return protocommon.HashAlgorithm_SHA2_256
}

func (k *keypair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

func (k *keypair) GetHint() []byte                { return nil }
func (k *keypair) GetKeyAlgorithm() string        { return "ECDSA" }
func (k *keypair) GetPublicKey() crypto.PublicKey { return k.key.Public() }

func (k *keypair) GetPublicKeyPem() (string, error) {
	text, err := cryptoutils.MarshalPublicKeyToPEM(k.key.Public())

	return string(text), err
}

// SignData returns the signature and the digest that was signed.
func (k *keypair) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	sum := sha256.Sum256(data)
	signature, err := k.key.Sign(rand.Reader, sum[:], crypto.SHA256)

	return signature, sum[:], err
}

// PublicTrustedRoot fetches the trusted root of sigstore's public instances, in JSON, or takes it from the
// cache where it is fresh.
func PublicTrustedRoot(cache string) ([]byte, error) {
	trusted, err := root.FetchTrustedRootWithOptions(tuf.DefaultOptions().WithCachePath(cache))
	if err != nil {
		return nil, fmt.Errorf("fetching sigstore's public trusted root: %w: give --trusted-root for your own", err)
	}

	return trusted.MarshalJSON()
}
