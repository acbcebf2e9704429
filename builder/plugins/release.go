package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	neturl "net/url"
	"os"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// ReleaseSource downloads upstream's release archive.
type ReleaseSource struct {
	// Client makes the requests; its transport decides about proxies and certificates.
	Client   *http.Client
	Cache    Cache
	Log      *slog.Logger
	Progress Progress
	// retryInterval is the first pause between attempts, stallTimeout and maxDownload replace the
	// defaults below; zero for the default. Tests shorten them.
	retryInterval, stallTimeout time.Duration
	maxDownload                 int64
}

var _ Source = (*ReleaseSource)(nil)

// Kind is "release".
func (s *ReleaseSource) Kind() string { return "release" }

const (
	// defaultMaxDownload bounds the archive in bytes; upstream's has about 55 MB.
	defaultMaxDownload = 512 << 20
	// defaultStallTimeout ends an attempt during which no byte arrives for so long.
	defaultStallTimeout = 60 * time.Second
	maxAttempts         = 5
)

// Provide downloads the archive, or takes it from the cache, and unpacks it once its sum is the pin's.
func (s *ReleaseSource) Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (Files, error) {
	sum, ok := pin.Release.SHA256[arch]
	if !ok {
		return Files{}, fmt.Errorf("pin %s has no release sum for %s: use --source module, or add the sum to a pin file", pin.Version, arch)
	}

	url := pin.Release.URLFor(pin.Version, arch)

	archive, err := s.Cache.File(ctx, "downloads", "sha256:"+sum, func(ctx context.Context, target string) error {
		s.Log.Info("downloading " + url)

		return s.download(ctx, url, "sha256:"+sum, target)
	})
	if err != nil {
		return Files{}, fmt.Errorf("downloading %s: %w", url, err)
	}

	files, err := unpack(ctx, archive.Path, selection, dir)
	if err != nil {
		return Files{}, fmt.Errorf("release archive %s: %w", url, err)
	}

	return files, nil
}

// download fetches url into target and accepts it only with the wanted digest. What may pass by
// itself (a broken connection, 429, 5xx) is tried again.
func (s *ReleaseSource) download(ctx context.Context, url, want, target string) error {
	pause := backoff.NewExponentialBackOff()
	if s.retryInterval > 0 {
		pause.InitialInterval = s.retryInterval
	}

	attempt := func() (struct{}, error) {
		return struct{}{}, s.attempt(ctx, url, want, target)
	}

	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(pause), backoff.WithMaxTries(maxAttempts),
		backoff.WithNotify(func(err error, wait time.Duration) {
			s.Log.Warn(fmt.Sprintf("%v; trying again in %s", err, wait.Round(time.Millisecond)))
		}))

	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}

	return err
}

func (s *ReleaseSource) attempt(ctx context.Context, url, want, target string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return backoff.Permanent(err)
	}

	// A server that calls the archive an encoded tar would have it decoded on the way.
	request.Header.Set("Accept-Encoding", "identity")

	stallTimeout, maxDownload := cmp.Or(s.stallTimeout, defaultStallTimeout), cmp.Or(s.maxDownload, defaultMaxDownload)

	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no data for %s", stallTimeout)) })
	defer stall.Stop()

	response, err := s.Client.Do(request)

	// Whoever gets the error knows the address.
	var failed *neturl.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}

	if err != nil {
		return err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return statusError(response)
	}

	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return backoff.Permanent(err)
	}
	defer file.Close()

	bar := s.Progress(url, response.ContentLength)
	defer bar.Close()

	digester := payload.NewDigester()
	body := &touchReader{r: io.LimitReader(response.Body, maxDownload+1), touch: func() { stall.Reset(stallTimeout) }}

	if _, err := io.Copy(io.MultiWriter(onlyWriteErrors{file}, digester, bar), body); err != nil {
		var writing *writeError
		if errors.As(err, &writing) {
			return backoff.Permanent(writing.err) // a full disk does not pass by itself
		}

		if cause := context.Cause(ctx); cause != nil {
			return cause
		}

		return fmt.Errorf("after %d bytes: %w", digester.Size(), err)
	}

	if digester.Size() > maxDownload {
		return backoff.Permanent(fmt.Errorf("the server sends more than %d bytes, which no release archive has", maxDownload))
	}

	if digester.Digest() != want {
		return backoff.Permanent(fmt.Errorf("what arrived is not the pinned archive: %d bytes of type %q (%s) with %s instead of %s: look at the address or the proxy in between",
			digester.Size(), response.Header.Get("Content-Type"), sniff(target), digester.Digest(), want))
	}

	return file.Close()
}

// statusError says what a server answered, and whether to ask again.
func statusError(response *http.Response) error {
	err := fmt.Errorf("the server answered %s", response.Status)

	switch {
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable:
		const longest = 60 // seconds; a build does not wait for what a server asks beyond that

		if seconds, parseErr := strconv.Atoi(response.Header.Get("Retry-After")); parseErr == nil && seconds > 0 {
			return &laterError{err, backoff.RetryAfter(min(seconds, longest))}
		}

		return err
	case response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout:
		return err
	default:
		return backoff.Permanent(err)
	}
}

// laterError is an answer with which the server also said when to ask again. The latter is for the
// retrying only and stays out of the message.
type laterError struct{ answer, when error }

func (e *laterError) Error() string   { return e.answer.Error() }
func (e *laterError) Unwrap() []error { return []error{e.answer, e.when} }

// touchReader calls touch whenever data arrives.
type touchReader struct {
	r     io.Reader
	touch func()
}

func (t *touchReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.touch()
	}

	return n, err
}

// writeError marks an error of the local file, as opposed to the connection.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// onlyWriteErrors marks the errors of a writer.
type onlyWriteErrors struct{ w io.Writer }

func (o onlyWriteErrors) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		return n, &writeError{err}
	}

	return n, nil
}
