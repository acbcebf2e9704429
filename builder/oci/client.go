package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Client talks to registries. It waits and tries again where that can help, and takes up again what a
// dropped connection cut short.
type Client struct {
	puller *remote.Puller
	pusher *remote.Pusher

	insecure bool
	jobs     int
	retries  retries
}

// ClientOption changes how a Client talks.
type ClientOption func(*clientOptions)

type clientOptions struct {
	keychain  authn.Keychain
	proxy     func(*http.Request) (*url.URL, error)
	roots     *x509.CertPool
	insecure  bool
	jobs      int
	userAgent string
	retries   retries
	stall     time.Duration
}

// WithKeychain says where credentials come from; the default is to have none.
func WithKeychain(keychain authn.Keychain) ClientOption {
	return func(o *clientOptions) { o.keychain = keychain }
}

// WithProxy chooses a proxy for each request, as http.ProxyFromEnvironment does.
func WithProxy(proxy func(*http.Request) (*url.URL, error)) ClientOption {
	return func(o *clientOptions) { o.proxy = proxy }
}

// WithRootCAs trusts these certificate authorities instead of the system's.
func WithRootCAs(roots *x509.CertPool) ClientOption {
	return func(o *clientOptions) { o.roots = roots }
}

// WithInsecure takes any certificate, and plain HTTP from a registry that has no TLS. Registries on
// this machine and in private IPv4 networks that are given by address may speak plain HTTP anyway.
func WithInsecure() ClientOption {
	return func(o *clientOptions) { o.insecure = true }
}

// WithJobs sets how many blobs are transferred at once; the default is 4.
func WithJobs(jobs int) ClientOption {
	return func(o *clientOptions) { o.jobs = jobs }
}

// WithUserAgent sets what the client calls itself.
func WithUserAgent(userAgent string) ClientOption {
	return func(o *clientOptions) { o.userAgent = userAgent }
}

// WithRetries sets how often something is tried at most, and the time before the second attempt,
// which grows exponentially from there. The defaults are 6 and half a second.
func WithRetries(tries int, first time.Duration) ClientOption {
	return func(o *clientOptions) { o.retries = retries{tries: tries, first: first} }
}

// WithStallTimeout sets after how long without a byte in either direction a connection counts as
// dropped; the default is a minute.
func WithStallTimeout(stall time.Duration) ClientOption {
	return func(o *clientOptions) { o.stall = stall }
}

// NewClient returns a client for any number of registries.
func NewClient(options ...ClientOption) (*Client, error) {
	chosen := clientOptions{
		keychain:  authn.NewMultiKeychain(),
		jobs:      4,
		userAgent: "cnibake",
		retries:   retries{tries: 6, first: time.Second / 2},
		stall:     time.Minute,
	}
	for _, option := range options {
		option(&chosen)
	}

	shared := []remote.Option{
		remote.WithAuthFromKeychain(chosen.keychain),
		remote.WithTransport(&retryTransport{retries: chosen.retries, next: chosen.transport()}),
		// Ours waits as long as the registry asks, and stops waiting when the context ends.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
		remote.WithUserAgent(chosen.userAgent),
		remote.WithJobs(chosen.jobs),
	}

	puller, err := remote.NewPuller(shared...)
	if err != nil {
		return nil, err
	}

	pusher, err := remote.NewPusher(shared...)
	if err != nil {
		return nil, err
	}

	return &Client{puller: puller, pusher: pusher, insecure: chosen.insecure, jobs: chosen.jobs, retries: chosen.retries}, nil
}

func (o clientOptions) transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

	return &http.Transport{
		Proxy: o.proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}

			return newStallConn(conn, o.stall), nil
		},
		TLSClientConfig:     &tls.Config{RootCAs: o.roots, InsecureSkipVerify: o.insecure, MinVersion: tls.VersionTLS12}, //nolint:gosec // asked for
		TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: o.jobs,
		IdleConnTimeout:     90 * time.Second,
		// A blob's digest is that of the bytes as they are stored.
		DisableCompression: true,
	}
}

// parse reads a reference.
func (c *Client) parse(reference string) (name.Reference, error) {
	var options []name.Option
	if c.insecure {
		options = append(options, name.Insecure)
	}

	return name.ParseReference(reference, options...)
}

// Digest asks a registry for the digest of what a reference names.
func (c *Client) Digest(ctx context.Context, reference string) (v1.Hash, error) {
	ref, err := c.parse(reference)
	if err != nil {
		return v1.Hash{}, err
	}

	digest, err := c.digest(ctx, ref)
	if err != nil {
		return digest, fmt.Errorf("asking for the digest of %s: %w", reference, err)
	}

	return digest, nil
}

func (c *Client) digest(ctx context.Context, ref name.Reference) (v1.Hash, error) {
	descriptor, err := c.puller.Head(ctx, ref)
	if err != nil {
		return v1.Hash{}, explain(err)
	}

	return descriptor.Digest, nil
}

// Get returns the index or image that a reference names, one of the two. Layers are fetched when they
// are read, and only as far as they are read.
func (c *Client) Get(ctx context.Context, reference string) (Subject, error) {
	ref, err := c.parse(reference)
	if err != nil {
		return Subject{}, err
	}

	return c.get(ctx, ref)
}

func (c *Client) get(ctx context.Context, ref name.Reference) (Subject, error) {
	descriptor, err := c.puller.Get(ctx, ref)
	if err != nil {
		return Subject{}, explain(err)
	}

	subject := Subject{Descriptor: descriptor.Descriptor}

	switch {
	case descriptor.MediaType.IsIndex():
		subject.Index, err = descriptor.ImageIndex()
	case descriptor.MediaType.IsImage():
		subject.Image, err = pulledImage(descriptor)
	default:
		err = fmt.Errorf("%s is neither an image nor an index", descriptor.MediaType)
	}

	return subject, err
}

func pulledImage(descriptor *remote.Descriptor) (v1.Image, error) {
	image, err := descriptor.Image()
	if err != nil {
		return nil, err
	}

	manifest, err := image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}

	// The library reads it as a whole.
	if err := checkDocument(manifest.Config); err != nil {
		return nil, err
	}

	return image, nil
}
