package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	// longestPause bounds the exponential growth, longestWish what a registry may ask for.
	longestPause = 20 * time.Second
	longestWish  = 2 * time.Minute

	maxRedirects = 10
)

// retries says how often something is tried and how long to wait before the second attempt.
type retries struct {
	tries int
	first time.Duration
}

// do calls attempt until it succeeds, fails for good, or was called often enough.
func (r retries) do(ctx context.Context, attempt func() error) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: r.first, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: longestPause}

	for n := 1; ; n++ {
		err := attempt()

		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !transient(err):
			return err
		case n >= r.tries:
			return &gaveUpError{n, err}
		}

		pause := pauses.NextBackOff()

		if busy := (*busyError)(nil); errors.As(err, &busy) {
			if busy.after > longestWish {
				return &gaveUpError{n, err}
			}

			pause = max(pause, busy.after)
		}

		timer := time.NewTimer(pause)

		select {
		case <-ctx.Done():
			timer.Stop()

			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// gaveUpError is a fault that passes, usually; further attempts are not worth while.
type gaveUpError struct {
	tries int
	err   error
}

func (e *gaveUpError) Error() string {
	text := e.err.Error()

	if dropped := (*url.Error)(nil); errors.As(e.err, &dropped) {
		text = "the connection is dropped: " + dropped.Err.Error()
	}

	if e.tries > 1 {
		text += fmt.Sprintf(" (tried %d times)", e.tries)
	}

	return text
}

func (e *gaveUpError) Unwrap() error { return e.err }

// busyError is an answer by which a registry says that it cannot at the moment.
type busyError struct {
	status int
	// after is what the registry asks to wait; 0 when it says nothing.
	after time.Duration
}

func (e *busyError) Error() string {
	text := fmt.Sprintf("the registry answers %d %s", e.status, http.StatusText(e.status))
	if e.after > longestWish {
		text += fmt.Sprintf(" and asks to come back in %v", e.after)
	}

	return text
}

// newBusyError returns nil for an answer that will be the same next time.
func newBusyError(response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
	case status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
	default:
		return nil
	}

	return &busyError{response.StatusCode, retryAfter(response.Header.Get("Retry-After"))}
}

// retryAfter reads both forms of the header: seconds and a date.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}

	if date, err := http.ParseTime(header); err == nil {
		return max(time.Until(date), 0)
	}

	return 0
}

// transient tells a fault that passes from one that stays.
func transient(err error) bool {
	var (
		gaveUp     *gaveUpError
		busy       *busyError
		dial       *net.OpError
		timeout    net.Error
		diagnostic *transport.Error
	)

	switch {
	case errors.As(err, &gaveUp), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	case errors.As(err, &busy), errors.As(err, &timeout) && timeout.Timeout():
		return true
	case errors.As(err, &diagnostic):
		return lostUpload(diagnostic)
	}

	for _, dropped := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, dropped) {
			return true
		}
	}

	// The standard library keeps the types of these to itself.
	return strings.Contains(err.Error(), "http2: ") || strings.Contains(err.Error(), "stream error: ") ||
		strings.Contains(err.Error(), "server closed idle connection") || strings.Contains(err.Error(), "transport connection broken")
}

// lostUpload reports whether a registry lost count of an upload, as after a connection that dropped
// when it had taken everything. The next attempt starts by asking whether the blob is there.
func lostUpload(err *transport.Error) bool {
	for _, diagnostic := range err.Errors {
		switch diagnostic.Code {
		case transport.BlobUploadUnknownErrorCode, transport.BlobUploadInvalidErrorCode, transport.SizeInvalidErrorCode, transport.DigestInvalidErrorCode:
		default:
			return false
		}
	}

	return len(err.Errors) > 0 || err.StatusCode == http.StatusRequestedRangeNotSatisfiable
}

// retryTransport repeats requests that can be repeated, and turns answers of a busy registry to
// the others into errors, so that whoever knows the whole upload can begin again.
type retryTransport struct {
	retries retries
	next    http.RoundTripper
}

func (t *retryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if redirects(request) > maxRedirects {
		return nil, fmt.Errorf("the registry redirects more than %d times", maxRedirects)
	}

	if !repeatable(request) {
		return t.once(request)
	}

	response, err := t.repeat(request)
	if err == nil {
		t.resume(request, response)
	}

	return response, err
}

// redirects counts the answers that led to a request. The library sets no limit of its own.
func redirects(request *http.Request) int {
	n := 0

	for ; request != nil && request.Response != nil; request = request.Response.Request {
		n++
	}

	return n
}

func (t *retryTransport) repeat(request *http.Request) (response *http.Response, err error) {
	first := true

	err = t.retries.do(request.Context(), func() (err error) {
		again := request

		if !first && request.GetBody != nil {
			again = request.Clone(request.Context())
			if again.Body, err = request.GetBody(); err != nil {
				return err
			}
		}

		first = false
		response, err = t.once(again)

		return err
	})

	return response, err
}

func (t *retryTransport) once(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}

	if err := newBusyError(response); err != nil {
		response.Body.Close()

		return nil, err
	}

	return response, nil
}

// repeatable reports whether a request can be sent twice: pieces of an upload cannot, since the
// registry may have taken some of it.
func repeatable(request *http.Request) bool {
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		return false
	}

	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		return true
	case http.MethodPut:
		return strings.Contains(request.URL.Path, "/manifests/")
	default:
		return false
	}
}
