package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// Files of the cluster in its node.
const (
	dir            = "/etc/kubernetes"
	caFile         = dir + "/ca.crt"
	certFile       = dir + "/apiserver.crt"
	keyFile        = dir + "/apiserver.key"
	accountKeyFile = dir + "/accounts.key"
	tokenFile      = dir + "/tokens.csv"
	kubeconfigFile = dir + "/kubeconfig"
	kubeletFile    = dir + "/kubelet.yaml"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %s}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`

// credentials makes an authority, what the API server needs from it, and an administrator.
func credentials() (map[string][]byte, error) {
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cnibake test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}

	caCertificate, err := x509.CreateCertificate(rand.Reader, ca, ca, authority.Public(), authority)
	if err != nil {
		return nil, err
	}

	server, serverKey, err := newKey()
	if err != nil {
		return nil, err
	}

	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(node.Address), net.ParseIP(node.ServiceAddress), net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
	}, ca, server.Public(), authority)
	if err != nil {
		return nil, err
	}

	// Service accounts' tokens are signed with it, and verified with it: it holds its public half.
	_, accounts, err := newKey()
	if err != nil {
		return nil, err
	}

	token := rand.Text()

	return map[string][]byte{
		caFile:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caCertificate}),
		certFile:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		keyFile:        serverKey,
		accountKeyFile: accounts,
		tokenFile:      fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token),
		kubeconfigFile: fmt.Appendf(nil, kubeconfig, node.Address, caFile, token),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}

	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}

	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), nil
}
