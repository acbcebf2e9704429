package buildertest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// RegistryServer is a registry on the loopback interface that ends with its test.
type RegistryServer struct {
	// Host is the part of references before the first slash.
	Host string
	// URL has the scheme too.
	URL string
	// CAFile holds the certificate authority of a registry with TLS.
	CAFile string
	// Username and Password are those of a registry that wants them.
	Username, Password string
}

// MemoryRegistry starts the library's registry, with or without the API for referrers.
func MemoryRegistry(t testing.TB, referrers bool) *RegistryServer {
	t.Helper()

	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	return &RegistryServer{Host: strings.TrimPrefix(server.URL, "http://"), URL: server.URL}
}

// The password's hash is what `htpasswd -B` would write; a cost of 4 is the least.
const (
	username = "pusher"
	password = "correct horse"
	htpasswd = username + ":$2a$04$4aRtLwaAAjnlOfdoeQXb6OSKAAi0wWim5urwC/jllKTt22oDN0pWq\n"
)

// DockerRegistry starts Debian's docker-registry, a registry 2.8 without the API for referrers; with
// TLS and basic authentication, or with plain HTTP for everybody.
func DockerRegistry(t testing.TB, secure bool) *RegistryServer {
	t.Helper()

	program := RequireTool(t, "docker-registry")
	dir := t.TempDir()
	server := &RegistryServer{}

	config := fmt.Sprintf(`version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
http:
  addr: 127.0.0.1:0
`, filepath.Join(dir, "storage"))

	if secure {
		server.Username, server.Password = username, password
		server.CAFile = filepath.Join(dir, "ca.crt")
		key, users := filepath.Join(dir, "tls.key"), filepath.Join(dir, "htpasswd")

		writeCertificate(t, server.CAFile, key)

		if err := os.WriteFile(users, []byte(htpasswd), 0o600); err != nil {
			t.Fatal(err)
		}

		config += fmt.Sprintf("  tls: {certificate: %q, key: %q}\nauth:\n  htpasswd: {realm: test, path: %q}\n", server.CAFile, key, users)
	}

	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	server.Host = startRegistry(t, program, file)
	server.URL = "http://" + server.Host

	if secure {
		server.URL = "https://" + server.Host
	}

	return server
}

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[0-9]+)`)

// startRegistry returns the address, which the program chooses and logs once it listens.
func startRegistry(t testing.TB, program, config string) string {
	t.Helper()

	cmd := exec.Command(program, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}

	logged, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	address := make(chan string, 1)
	read := make(chan struct{})

	go func() {
		defer close(read)
		defer close(address)

		for lines := bufio.NewScanner(logged); lines.Scan(); {
			if match := listening.FindStringSubmatch(lines.Text()); match != nil {
				address <- match[1]

				break
			}
		}

		_, _ = io.Copy(io.Discard, logged)
	}()

	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read

		_ = cmd.Wait()
	})

	select {
	case host, ok := <-address:
		if !ok {
			t.Fatal("docker-registry ended before it listened")
		}

		return host
	case <-time.After(time.Minute):
		t.Fatal("docker-registry does not listen")
	}

	return ""
}

// writeCertificate makes a certificate for the loopback address that is its own authority.
func writeCertificate(t testing.TB, certificate, key string) {
	t.Helper()

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test registry"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}

	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}

	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}

	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
