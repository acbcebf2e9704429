package buildertest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/go-openapi/runtime"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
	rekorutil "github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigs "github.com/sigstore/sigstore/pkg/signature"
	// The kinds of entries that the log takes.
)

// Authority is a certificate authority with Fulcio's interface, and a transparency log with Rekor's. It
// believes every token: who vouches for an identity is not what is tested here.
type Authority struct {
	// URL is that of both.
	URL string

	t      testing.TB
	caKey  *ecdsa.PrivateKey
	ca     *x509.Certificate
	logKey *ecdsa.PrivateKey
	// issued is when its certificates begin; they are good for ten minutes.
	issued time.Time
}

// OIDCIssuer is who vouched for every identity.
const OIDCIssuer = "https://accounts.example"

// NewAuthority starts an authority that ends with the test. Its certificates begin at a given time.
func NewAuthority(t testing.TB, issued time.Time) *Authority {
	t.Helper()

	caKey, logKey := NewKey(t), NewKey(t)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority", Organization: []string{"test"}},
		NotBefore: issued.Add(-time.Hour), NotAfter: issued.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}

	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}

	a := &Authority{t: t, caKey: caKey, ca: ca, logKey: logKey, issued: issued}

	routes := http.NewServeMux()
	routes.HandleFunc("POST /api/v2/signingCert", a.certify)
	routes.HandleFunc("POST /api/v1/log/entries", a.record)

	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)

	a.URL = server.URL

	return a
}

// Token is an identity token, as far as anybody looks at it here.
func Token(email string) string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub": "1", "email": "` + email + `", "email_verified": true}`))

	return "e30." + claims + ".e30"
}

// certify answers with a certificate for the address in the token.
func (a *Authority) certify(w http.ResponseWriter, r *http.Request) {
	var request struct {
		PublicKeyRequest struct{ PublicKey struct{ Content string } }
	}

	var claims struct{ Email string }

	parts := strings.Split(r.Header.Get("Authorization"), ".")
	decoded, err := base64.RawURLEncoding.DecodeString(parts[1])

	if err != nil || json.Unmarshal(decoded, &claims) != nil || json.NewDecoder(r.Body).Decode(&request) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)

		return
	}

	block, _ := pem.Decode([]byte(request.PublicKeyRequest.PublicKey.Content))

	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)

		return
	}

	issuer, err := asn1.MarshalWithParams(OIDCIssuer, "utf8")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)

		return
	}

	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: a.issued, NotAfter: a.issued.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		EmailAddresses: []string{claims.Email},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(OIDCIssuer)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer},
		},
	}, a.ca, public, a.caKey)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)

		return
	}

	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	_ = json.NewEncoder(w).Encode(map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": []string{text}}}})
}

// record answers as if every entry were the first and only one of a log.
func (a *Authority) record(w http.ResponseWriter, r *http.Request) {
	entry, err := a.entry(r)
	if err != nil {
		a.t.Error(err)
		http.Error(w, err.Error(), http.StatusBadRequest)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{strings.Repeat("0", 64): entry})
}

func (a *Authority) entry(r *http.Request) (map[string]any, error) {
	proposed, err := models.UnmarshalProposedEntry(r.Body, runtime.JSONConsumer())
	if err != nil {
		return nil, err
	}

	parsed, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return nil, err
	}

	canonical, err := types.CanonicalizeEntry(context.Background(), parsed)
	if err != nil {
		return nil, err
	}

	id := a.logID()
	entry := map[string]any{
		"body": base64.StdEncoding.EncodeToString(canonical), "integratedTime": a.issued.Add(time.Minute).Unix(),
		"logID": hex.EncodeToString(id), "logIndex": 0,
	}

	promised, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}

	if promised, err = jsoncanonicalizer.Transform(promised); err != nil {
		return nil, err
	}

	signer, err := sigs.LoadSigner(a.logKey, crypto.SHA256)
	if err != nil {
		return nil, err
	}

	promise, err := signer.SignMessage(bytes.NewReader(promised))
	if err != nil {
		return nil, err
	}

	leaf := sha256.Sum256(append([]byte{0}, canonical...))

	checkpoint, err := rekorutil.CreateAndSignCheckpoint(context.Background(), "log.example", 1, 1, leaf[:], signer)
	if err != nil {
		return nil, err
	}

	entry["verification"] = map[string]any{
		"signedEntryTimestamp": promise,
		"inclusionProof": map[string]any{
			"checkpoint": string(checkpoint), "hashes": []string{}, "logIndex": 0, "rootHash": hex.EncodeToString(leaf[:]), "treeSize": 1,
		},
	}

	return entry, nil
}

func (a *Authority) logID() []byte {
	der, err := x509.MarshalPKIXPublicKey(a.logKey.Public())
	if err != nil {
		a.t.Fatal(err)
	}

	id := sha256.Sum256(der)

	return id[:]
}

// TrustedRoot is what believes this authority and, if signatures have to be logged, its log.
func (a *Authority) TrustedRoot(logged bool) []byte {
	a.t.Helper()

	logs := make(map[string]*root.TransparencyLog)
	if logged {
		logs[hex.EncodeToString(a.logID())] = &root.TransparencyLog{
			BaseURL: a.URL, ID: a.logID(), ValidityPeriodStart: a.issued.Add(-time.Hour), HashFunc: crypto.SHA256,
			PublicKey: &a.logKey.PublicKey, SignatureHashFunc: crypto.SHA256,
		}
	}

	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{&root.FulcioCertificateAuthority{
		Root: a.ca, ValidityPeriodStart: a.issued.Add(-time.Hour), ValidityPeriodEnd: a.issued.Add(48 * time.Hour), URI: a.URL,
	}}, nil, nil, logs)
	if err != nil {
		a.t.Fatal(err)
	}

	text, err := trusted.MarshalJSON()
	if err != nil {
		a.t.Fatal(err)
	}

	return text
}
