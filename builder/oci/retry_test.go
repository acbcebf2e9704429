package oci

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// The clock in here is synctest's.
func TestRetriesWait(t *testing.T) {
	t.Parallel()

	dropped := &url.Error{Op: "Patch", URL: "http://registry.example", Err: io.EOF}

	for name, test := range map[string]struct {
		errs []error
		// least and most are how long it may take.
		least, most time.Duration
		tries       int
		want        string
	}{
		"at once":            {[]error{nil}, 0, 0, 1, ""},
		"dropped once":       {[]error{dropped, nil}, 250 * time.Millisecond, 750 * time.Millisecond, 2, ""},
		"dropped each time":  {[]error{dropped}, 3875 * time.Millisecond, 31 * time.Second, 6, "EOF (tried 6 times)"},
		"asked to wait":      {[]error{&busyError{429, 90 * time.Second}, nil}, 90 * time.Second, 90 * time.Second, 2, ""},
		"asked for too long": {[]error{&busyError{503, time.Hour}}, 0, 0, 1, "come back in 1h0m0s"},
		"for good":           {[]error{errors.New("denied")}, 0, 0, 1, "denied"},
		"given up below":     {[]error{&gaveUpError{6, dropped}}, 0, 0, 1, "(tried 6 times)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, tries := time.Now(), 0

				err := retries{6, time.Second / 2}.do(t.Context(), func() error {
					tries++

					return test.errs[min(tries, len(test.errs))-1]
				})

				if took := time.Since(start); took < test.least || took > test.most || tries != test.tries {
					t.Errorf("%d tries took %v, want %d and %v to %v", tries, took, test.tries, test.least, test.most)
				}

				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error is %v, want %q", err, test.want)
				}
			})
		})
	}
}

func TestRetriesStopWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		start := time.Now()

		err := retries{6, time.Second}.do(ctx, func() error { return &busyError{503, time.Minute} })
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for header, want := range map[string]time.Duration{
			"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			if got := retryAfter(header); got != want {
				t.Errorf("%q is %v, want %v", header, got, want)
			}
		}
	})
}

func TestTransient(t *testing.T) {
	t.Parallel()

	wrapped := func(err error) error { return &url.Error{Op: "Get", URL: "https://registry.example", Err: err} }
	answer := func(status int, codes ...transport.ErrorCode) error {
		e := &transport.Error{StatusCode: status}
		for _, code := range codes {
			e.Errors = append(e.Errors, transport.Diagnostic{Code: code})
		}

		return e
	}

	for _, test := range []struct {
		err  error
		want bool
	}{
		{wrapped(io.EOF), true},
		{wrapped(io.ErrUnexpectedEOF), true},
		{wrapped(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), true},
		{wrapped(&net.OpError{Op: "write", Err: syscall.EPIPE}), true},
		{wrapped(errors.New("http2: server sent GOAWAY and closed the connection")), true},
		{&busyError{503, 0}, true},
		{answer(404, transport.BlobUploadUnknownErrorCode), true},
		{answer(400, transport.DigestInvalidErrorCode), true},
		{answer(416), true},
		{answer(404, transport.ManifestUnknownErrorCode), false},
		{answer(404, transport.BlobUploadUnknownErrorCode, transport.DeniedErrorCode), false},
		{answer(401, transport.UnauthorizedErrorCode), false},
		{answer(403), false},
		{wrapped(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), false},
		{wrapped(x509.UnknownAuthorityError{}), false},
		{wrapped(context.Canceled), false},
		{wrapped(context.DeadlineExceeded), false},
		{&gaveUpError{6, io.EOF}, false},
		{errors.New("anything else"), false},
	} {
		if got := transient(fmt.Errorf("sending: %w", test.err)); got != test.want {
			t.Errorf("%v: %t", test.err, got)
		}
	}
}

// A piece of an upload is not sent twice, since the registry may have taken some of it.
func TestRepeatable(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		method, path string
		body         io.Reader
		want         bool
	}{
		{"GET", "/v2/", nil, true},
		{"HEAD", "/v2/a/blobs/sha256:0", nil, true},
		{"POST", "/v2/a/blobs/uploads/", nil, true},
		{"POST", "/token", strings.NewReader("scope=push"), true},
		{"PUT", "/v2/a/manifests/v1", bytes.NewReader(nil), true},
		{"PUT", "/v2/a/blobs/uploads/1", nil, false},
		{"PATCH", "/v2/a/blobs/uploads/1", strings.NewReader("x"), false},
		{"POST", "/token", io.MultiReader(strings.NewReader("x")), false},
	} {
		request, err := http.NewRequest(test.method, "http://registry.example"+test.path, test.body)
		if err != nil {
			t.Fatal(err)
		}

		if got := repeatable(request); got != test.want {
			t.Errorf("%s %s: %t", test.method, test.path, got)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()

	request := func(path string) *http.Request { return &http.Request{Method: "GET", URL: &url.URL{Path: path}} }
	wrapped := func(err error) error { return &url.Error{Op: "Get", URL: "https://registry.example/v2/", Err: err} }

	for _, test := range []struct {
		err  error
		want string
		kind error
	}{
		{wrapped(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "the registry's certificate is signed by an authority that this machine does not know", ErrCertificate},
		{wrapped(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.example"}}, Host: "b.example"}}), "the registry's certificate is for another name: x509: certificate is valid for a.example, not b.example", ErrCertificate},
		{wrapped(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}), "the registry's certificate is not valid: x509: certificate has expired or is not yet valid: ", ErrCertificate},
		{wrapped(errors.New("http: server gave HTTP response to HTTPS client")), "the registry speaks plain HTTP", ErrPlainHTTP},
		{wrapped(&net.DNSError{Name: "registry.example", IsNotFound: true}), "no such host: registry.example", nil},
		{wrapped(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "nothing listens there: connection refused", nil},
		{&transport.Error{StatusCode: 401, Errors: []transport.Diagnostic{{Code: transport.UnauthorizedErrorCode, Message: "authentication required"}}}, "the registry wants other credentials; UNAUTHORIZED authentication required", ErrUnauthorized},
		{&transport.Error{StatusCode: 403}, "the registry does not allow it with these credentials", ErrUnauthorized},
		{&transport.Error{StatusCode: 404, Request: request("/v2/a/manifests/v1"), Errors: []transport.Diagnostic{{Code: transport.ManifestUnknownErrorCode}}}, "it is not in the registry; MANIFEST_UNKNOWN", ErrNotFound},
		{&transport.Error{StatusCode: 404, Request: request("/v2/")}, "there is a server, but no registry (404 for /v2/)", nil},
		{&transport.Error{StatusCode: 413}, "the registry answers 413 Request Entity Too Large", nil},
		{&gaveUpError{6, &busyError{503, 0}}, "the registry answers 503 Service Unavailable (tried 6 times)", nil},
		{wrapped(&gaveUpError{6, &busyError{503, 0}}), "the registry answers 503 Service Unavailable (tried 6 times)", nil},
		{&gaveUpError{6, wrapped(io.EOF)}, "the connection is dropped: EOF (tried 6 times)", nil},
		{wrapped(errors.New("Proxy Authentication Required")), "asking registry.example: Proxy Authentication Required", nil},
		{errors.New("anything else"), "anything else", nil},
	} {
		got := explain(test.err)
		if got.Error() != test.want {
			t.Errorf("%v is explained as %q, want %q", test.err, got, test.want)
		}

		for _, kind := range []error{ErrCertificate, ErrNotFound, ErrPlainHTTP, ErrUnauthorized} {
			if errors.Is(got, kind) != (kind == test.kind) {
				t.Errorf("%v is of the kind %v: %t", got, kind, errors.Is(got, kind))
			}
		}

		if again := explain(fmt.Errorf("pushing: %w", got)); again.Error() != "pushing: "+test.want {
			t.Errorf("explained twice: %q", again)
		}
	}

	if explain(nil) != nil {
		t.Error("nothing is explained")
	}
}
