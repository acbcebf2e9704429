package oci

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// resumeStep is how much has to arrive between two dropped connections for the count of attempts to
// begin anew.
const resumeStep = 1 << 20

// resume lets the body of an answer go on on another connection when its own is dropped.
func (t *retryTransport) resume(request *http.Request, response *http.Response) {
	if request.Method != http.MethodGet || response.StatusCode != http.StatusOK || response.ContentLength <= 0 || request.Header.Get("Range") != "" {
		return
	}

	response.Body = &resumingBody{
		transport: t, request: request, size: response.ContentLength, etag: response.Header.Get("ETag"), body: response.Body,
	}
}

// resumingBody reads on where a dropped connection ended. That the pieces belong together is for
// the reader to check, by the digest of the whole.
type resumingBody struct {
	transport  *retryTransport
	request    *http.Request
	size, read int64
	etag       string

	body io.ReadCloser
	// drops counts dropped connections since mark.
	drops int
	mark  int64
}

func (b *resumingBody) Close() error { return b.body.Close() }

func (b *resumingBody) Read(p []byte) (int, error) {
	for {
		n, err := b.body.Read(p)
		b.read += int64(n)

		switch {
		case n > 0 && !errors.Is(err, io.EOF):
			// The next call meets the error again.
			return n, nil
		case err == nil, errors.Is(err, io.EOF) && b.read >= b.size:
			return n, err
		case n > 0:
			return n, nil
		}

		if !transient(err) {
			return 0, err
		}

		if err := b.reopen(err); err != nil {
			return 0, err
		}
	}
}

func (b *resumingBody) reopen(cause error) error {
	if b.read-b.mark >= resumeStep {
		b.drops, b.mark = 0, b.read
	}

	if b.drops++; b.drops >= b.transport.retries.tries {
		return &gaveUpError{b.drops, cause}
	}

	b.body.Close()

	again := b.request.Clone(b.request.Context())

	if b.read > 0 {
		// Some servers do not understand a range without an end.
		again.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", b.read, b.size-1))
	}

	if b.etag != "" && !strings.HasPrefix(b.etag, "W/") {
		again.Header.Set("If-Range", b.etag)
	}

	response, err := b.transport.repeat(again)
	if err != nil {
		return err
	}

	b.body = response.Body

	switch response.StatusCode {
	case http.StatusPartialContent:
		if got := response.Header.Get("Content-Range"); !strings.HasPrefix(got, fmt.Sprintf("bytes %d-", b.read)) {
			return fmt.Errorf("the registry sends the range %q instead of the bytes from %d on", got, b.read)
		}

		return nil
	case http.StatusOK:
		// A server that knows no ranges sends everything again.
		_, err := io.CopyN(io.Discard, response.Body, b.read)

		return err
	default:
		return fmt.Errorf("the registry answers %s to the rest of a blob", response.Status)
	}
}

// stallConn is a connection that counts as dropped when for some time no byte goes in either direction.
type stallConn struct {
	net.Conn
	limit time.Duration

	mu       sync.Mutex
	extended time.Time
}

func newStallConn(conn net.Conn, limit time.Duration) net.Conn {
	c := &stallConn{Conn: conn, limit: limit}
	c.extend()

	return c
}

// extend moves the deadline of both directions: an upload is no stall although nothing is read.
func (c *stallConn) extend() {
	c.mu.Lock()
	defer c.mu.Unlock()

	// Not for every packet.
	if now := time.Now(); now.Sub(c.extended) > c.limit/100 {
		c.extended = now
		_ = c.SetDeadline(now.Add(c.limit))
	}
}

func (c *stallConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.extend()
	}

	return n, err
}

func (c *stallConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.extend()
	}

	return n, err
}
