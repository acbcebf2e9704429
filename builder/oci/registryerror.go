package oci

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// What goes wrong with registries, for callers that know what to do about it.
var (
	ErrUnauthorized = errors.New("unauthorized")
	ErrNotFound     = errors.New("not found")
	ErrCertificate  = errors.New("certificate not trusted")
	ErrPlainHTTP    = errors.New("plain HTTP")
)

// registryError is a fault in one sentence, in place of the chain of requests that met it.
type registryError struct {
	sentence  string
	kind, err error
}

func (e *registryError) Error() string { return e.sentence }

func (e *registryError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}

	return []error{e.kind, e.err}
}

// explain makes one line of an error from a registry.
func explain(err error) error {
	if err == nil {
		return nil
	}

	if known := (*registryError)(nil); errors.As(err, &known) {
		return err
	}

	var (
		answer      *transport.Error
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		certificate *tls.CertificateVerificationError
		name        *net.DNSError
		gaveUp      *gaveUpError
		request     *url.Error
	)

	switch {
	case errors.As(err, &authority):
		return &registryError{"the registry's certificate is signed by an authority that this machine does not know", ErrCertificate, err}
	case errors.As(err, &hostname):
		return &registryError{"the registry's certificate is for another name: " + hostname.Error(), ErrCertificate, err}
	case errors.As(err, &certificate):
		return &registryError{"the registry's certificate is not valid: " + certificate.Err.Error(), ErrCertificate, err}
	case errors.As(err, &name) && name.IsNotFound:
		return &registryError{"no such host: " + name.Name, nil, err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &registryError{"nothing listens there: connection refused", nil, err}
	case errors.As(err, &answer):
		return explainAnswer(answer, err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &registryError{"the registry speaks plain HTTP", ErrPlainHTTP, err}
	case errors.As(err, &gaveUp):
		return &registryError{gaveUp.Error(), nil, err}
	case errors.As(err, &request):
		return &registryError{"asking " + host(request.URL) + ": " + request.Err.Error(), nil, err}
	default:
		return err
	}
}

// host leaves out what the rest of an address holds: states of uploads, and what proxies need to know.
func host(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "the registry"
	}

	return parsed.Host
}

func explainAnswer(answer *transport.Error, err error) error {
	said := ""

	for _, diagnostic := range answer.Errors {
		said += "; " + strings.TrimSpace(string(diagnostic.Code)+" "+diagnostic.Message)
	}

	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return &registryError{"the registry wants other credentials" + said, ErrUnauthorized, err}
	case http.StatusForbidden:
		return &registryError{"the registry does not allow it with these credentials" + said, ErrUnauthorized, err}
	case http.StatusNotFound:
		if answer.Request != nil && strings.TrimSuffix(answer.Request.URL.Path, "/") == "/v2" {
			return &registryError{"there is a server, but no registry (404 for /v2/)", nil, err}
		}

		return &registryError{"it is not in the registry" + said, ErrNotFound, err}
	default:
		return &registryError{fmt.Sprintf("the registry answers %d %s%s", answer.StatusCode, http.StatusText(answer.StatusCode), said), nil, err}
	}
}
