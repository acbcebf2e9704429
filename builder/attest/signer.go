package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/types"
	sgbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/cryptoutils/goodkey"
	sigs "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// Signer signs images, files and statements.
type Signer struct {
	signer sigs.Signer
	public crypto.PublicKey
	// certificate is in DER, and nil for a key.
	certificate []byte
	// log is where signatures are made public; nil for nowhere.
	log *transparencyLog
}

// LoadKey reads a private key in PEM: cosign's own (encrypted), PKCS#8, PKCS#1 or SEC 1; EC, RSA or
// Ed25519. password is asked only when the key is encrypted.
func LoadKey(text []byte, password func() ([]byte, error)) (*Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not a PEM file: give a private key as \"cosign generate-key-pair\" or \"openssl genpkey\" makes it")
	}

	key, err := parseKey(block, password)
	if err != nil {
		return nil, err
	}

	private, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}

	if err := goodkey.ValidatePubKey(private.Public()); err != nil {
		return nil, fmt.Errorf("the key is too weak or of a kind that cosign does not know: %w", err)
	}

	// SHA-256 whatever the key: it is what cosign assumes of a key unless told otherwise.
	signer, err := sigs.LoadSigner(private, crypto.SHA256)
	if err != nil {
		return nil, err
	}

	return &Signer{signer: signer, public: private.Public()}, nil
}

func parseKey(block *pem.Block, password func() ([]byte, error)) (crypto.PrivateKey, error) {
	switch block.Type {
	case cosign.CosignPrivateKeyPemType, cosign.SigstorePrivateKeyPemType:
		secret, err := password()
		if err != nil {
			return nil, err
		}

		der, err := encrypted.Decrypt(block.Bytes, secret)
		if err != nil {
			return nil, fmt.Errorf("decrypting the key: %w (is COSIGN_PASSWORD right?)", err)
		}

		return x509.ParsePKCS8PrivateKey(der)
	case cosign.PrivateKeyPemType:
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case cosign.ECPrivateKeyPemType:
		return x509.ParseECPrivateKey(block.Bytes)
	case cosign.RSAPrivateKeyPemType:
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("a PEM block of type %q is no private key that can be used", block.Type)
	}
}

// Trust returns what verifies this signer's signatures. A keyless signer has none: its certificate
// is good for minutes.
func (s *Signer) Trust() (*Trust, error) {
	if s.certificate != nil {
		return nil, nil // there is none, and that is no error
	}

	return trustKey(s.public)
}

// claims reports whether a bundle says that it was made by this signer: with the same key, or with a
// certificate of the same names.
func (s *Signer) claims(bundle *sgbundle.Bundle) bool {
	content, err := bundle.VerificationContent()
	if err != nil {
		return false
	}

	if s.certificate == nil {
		hint, err := keyHint(s.public)

		return err == nil && content.PublicKey() != nil && content.PublicKey().Hint() == hint
	}

	mine, err := x509.ParseCertificate(s.certificate)
	other := content.Certificate()

	return err == nil && other != nil && slices.Equal(cryptoutils.GetSubjectAlternateNames(mine), cryptoutils.GetSubjectAlternateNames(other))
}

// SetLog makes signatures public in a Rekor transparency log.
func (s *Signer) SetLog(url string) error {
	log, err := newTransparencyLog(url)
	s.log = log

	return err
}

// sign returns a signature over data.
func (s *Signer) sign(ctx context.Context, data []byte) ([]byte, error) {
	signature, err := s.signer.SignMessage(bytes.NewReader(data), options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}

	return signature, nil
}

// envelope returns the JSON text of a DSSE envelope around a statement.
func (s *Signer) envelope(ctx context.Context, statement []byte) ([]byte, error) {
	envelope, err := dsse.WrapSigner(s.signer, types.IntotoPayloadType).SignMessage(bytes.NewReader(statement), options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}

	return envelope, nil
}

// pem returns what a reader needs besides the signature: the certificate, or the public key.
func (s *Signer) pem() ([]byte, error) {
	if s.certificate != nil {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate}), nil
	}

	return cryptoutils.MarshalPublicKeyToPEM(s.public)
}

// keyHint is how bundles name a public key: base64 of the SHA-256 of its DER form.
func keyHint(public crypto.PublicKey) (string, error) {
	sum, err := keySum(public)

	return base64.StdEncoding.EncodeToString(sum), err
}

// keyName is how messages name a public key.
func keyName(public crypto.PublicKey) (string, error) {
	sum, err := keySum(public)

	return "key sha256:" + hex.EncodeToString(sum), err
}

func keySum(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}

	sum := sha256.Sum256(der)

	return sum[:], nil
}
