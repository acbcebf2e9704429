package plugins_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// mirror is a server of release archives that answers each request with the next handler; the last
// one answers all that follow.
type mirror struct {
	*httptest.Server
	archive  []byte
	requests atomic.Int32
}

var shared struct {
	sync.Mutex
	archive []byte
}

// sharedArchive is an archive of real plugins, made once.
func sharedArchive(t *testing.T) []byte {
	t.Helper()

	shared.Lock()
	defer shared.Unlock()

	if shared.archive == nil {
		shared.archive = tgz(t, upstreamShape(t, "amd64"))
	}

	return shared.archive
}

func newMirror(t *testing.T, handlers ...func(m *mirror, w http.ResponseWriter, r *http.Request)) *mirror {
	t.Helper()

	m := &mirror{archive: sharedArchive(t)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(m.requests.Add(1))
		handlers[min(n, len(handlers))-1](m, w, r)
	}))
	t.Cleanup(m.Close)

	return m
}

func (m *mirror) pin(t *testing.T) profiles.Pin {
	t.Helper()

	pin := pinFor(t, "amd64", m.archive)
	pin.Release.URL = m.URL + "/{version}/cni-plugins-linux-{arch}-{version}.tgz"

	return pin
}

func good(m *mirror, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz" {
		http.NotFound(w, r)

		return
	}

	w.Header().Set("Content-Length", strconv.Itoa(len(m.archive)))
	_, _ = w.Write(m.archive)
}

func status(code int, header ...string) func(*mirror, http.ResponseWriter, *http.Request) {
	return func(_ *mirror, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}

		w.WriteHeader(code)
	}
}

// cut announces everything, sends half and closes the connection.
func cut(m *mirror, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", strconv.Itoa(len(m.archive)))
	_, _ = w.Write(m.archive[:len(m.archive)/2])

	panic(http.ErrAbortHandler)
}

func cutChunked(m *mirror, w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(m.archive[:len(m.archive)/2])

	panic(http.ErrAbortHandler)
}

// stalled sends half and then nothing more.
func stalled(m *mirror, w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write(m.archive[:len(m.archive)/2])
	_ = http.NewResponseController(w).Flush()

	<-r.Context().Done()
}

func silent(_ *mirror, _ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
}

const blocked = "<!DOCTYPE html><title>blocked by policy</title>"

func page(_ *mirror, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, blocked)
}

// encoded calls the archive an encoded tar, as some web servers do with .tgz files.
func encoded(m *mirror, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(m.archive)
}

func redirect(_ *mirror, w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, r.URL.Path, http.StatusFound)
}

// bar is a progress bar that only counts.
type bar struct {
	total, arrived int64
	closed         bool
}

func (b *bar) Write(p []byte) (int, error) { b.arrived += int64(len(p)); return len(p), nil }
func (b *bar) Close() error                { b.closed = true; return nil }

// release is a source with a cache of its own that waits for next to nothing.
func release(dir string, seen *bar) *plugins.ReleaseSource {
	source := &plugins.ReleaseSource{
		Client: &http.Client{Transport: &http.Transport{}},
		Cache:  builder.FileCache{Cache: cache.New(dir, cache.DefaultLimit)},
		Log:    slog.New(slog.DiscardHandler),
		Progress: func(_ string, total int64) io.WriteCloser {
			seen.total = total

			return seen
		},
	}
	source.Impatient(time.Millisecond, time.Minute, 0)

	return source
}

func TestReleaseOfRealPlugins(t *testing.T) {
	t.Parallel()

	m := newMirror(t, good)
	dir, seen, pin, wanted := t.TempDir(), &bar{}, m.pin(t), selection(t, few...)

	first, err := plugins.Collect(t.Context(), release(dir, seen), pin, "amd64", wanted, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if want := (bar{int64(len(m.archive)), int64(len(m.archive)), true}); *seen != want {
		t.Errorf("progress is %+v, want %+v", *seen, want)
	}

	if first.Manifest.Source != "release" || first.Manifest.Unpinned {
		t.Errorf("manifest is %+v", first.Manifest)
	}

	m.Close() // from here on only the cache can serve

	second, err := plugins.Collect(t.Context(), release(dir, &bar{}), pin, "amd64", wanted, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(first.Manifest, second.Manifest); diff != "" {
		t.Errorf("manifests (-first +second):\n%s", diff)
	}

	if got := m.requests.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// TestReleasePassesByItself: faults that pass are waited out.
func TestReleasePassesByItself(t *testing.T) {
	t.Parallel()

	for name, handlers := range map[string][]func(*mirror, http.ResponseWriter, *http.Request){
		"500":                  {status(500), good},
		"502, 503, 504":        {status(502), status(503), status(504), good},
		"408":                  {status(408), good},
		"429":                  {status(429), good},
		"429 with Retry-After": {status(429, "Retry-After", "1"), good},
		"503 with a date":      {status(503, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), good},
		"connection cut":       {cut, cut, good},
		"cut without length":   {cutChunked, good},
		"stalled":              {stalled, good},
		"silent":               {silent, good},
		"redirect":             {redirect, good},
		"encoded":              {encoded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := newMirror(t, handlers...)
			source := release(t.TempDir(), &bar{})

			if name == "stalled" || name == "silent" {
				source.Impatient(time.Millisecond, time.Second, 0)
			}

			if _, err := source.Provide(t.Context(), m.pin(t), "amd64", selection(t, few...), t.TempDir()); err != nil {
				t.Error(err)
			}

			if got := int(m.requests.Load()); got != len(handlers) {
				t.Errorf("%d requests, want %d", got, len(handlers))
			}
		})
	}
}

func TestReleaseRejects(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		handler  func(*mirror, http.ResponseWriter, *http.Request)
		requests int32
		want     string
	}{
		"404":          {status(404), 1, "the server answered 404 Not Found"},
		"403":          {status(403), 1, "the server answered 403 Forbidden"},
		"204":          {status(204), 1, "the server answered 204 No Content"},
		"always 500":   {status(500), 5, "the server answered 500 Internal Server Error"},
		"always 429":   {status(429, "Retry-After", "0"), 5, "the server answered 429 Too Many Requests"},
		"always cut":   {cut, 5, "after HALF bytes: unexpected EOF"},
		"always stops": {stalled, 5, "no data for 50ms"},
		"never speaks": {silent, 5, "no data for 50ms"},
		"page": {page, 1, `what arrived is not the pinned archive: 47 bytes of type "text/html" (text/html; charset=utf-8) with ` +
			"sha256:PAGE instead of sha256:SUM: look at the address or the proxy in between"},
		"empty": {status(200), 1, `what arrived is not the pinned archive: 0 bytes of type "" (text/plain; charset=utf-8) with ` +
			"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 instead of sha256:SUM: look at the address or the proxy in between"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m, dir := newMirror(t, test.handler), t.TempDir()
			source, pin := release(dir, &bar{}), m.pin(t)

			if strings.HasPrefix(test.want, "no data for ") {
				source.Impatient(time.Millisecond, 50*time.Millisecond, 0)
			}

			_, err := source.Provide(t.Context(), pin, "amd64", selection(t, few...), t.TempDir())

			want := "downloading " + pin.Release.URLFor("v1.9.1", "amd64") + ": " +
				strings.NewReplacer("HALF", strconv.Itoa(len(m.archive)/2), "SUM", pin.Release.SHA256["amd64"],
					"PAGE", fmt.Sprintf("%x", sha256.Sum256([]byte(blocked)))).Replace(test.want)
			if err == nil || err.Error() != want {
				t.Errorf("error is\n\t%v\nwant\n\t%s", err, want)
			}

			if got := m.requests.Load(); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}

			checkEmpty(t, dir)
		})
	}
}

// checkEmpty fails when a cache directory holds any file.
func checkEmpty(t *testing.T, dir string) {
	t.Helper()

	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left %s", path)
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReleaseRetryAfterIsOneLine: what a server asks for is part of a warning, not a second line.
func TestReleaseRetryAfterIsOneLine(t *testing.T) {
	t.Parallel()

	var log strings.Builder

	source := release(t.TempDir(), &bar{})
	source.Log = slog.New(slog.NewTextHandler(&log, nil))

	if _, err := source.Provide(t.Context(), newMirror(t, status(503, "Retry-After", "1"), good).pin(t), "amd64", selection(t, few...), t.TempDir()); err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(log.String(), "the server answered 503 Service Unavailable; trying again in 1s") || strings.Contains(log.String(), `\n`) {
		t.Errorf("log is %s", log.String())
	}
}

func TestReleaseTooLarge(t *testing.T) {
	t.Parallel()

	m := newMirror(t, good)
	source := release(t.TempDir(), &bar{})
	source.Impatient(time.Millisecond, time.Minute, 1000)

	_, err := source.Provide(t.Context(), m.pin(t), "amd64", selection(t, few...), t.TempDir())
	if err == nil || !strings.HasSuffix(err.Error(), ": the server sends more than 1000 bytes, which no release archive has") || m.requests.Load() != 1 {
		t.Errorf("after %d requests the error is %v", m.requests.Load(), err)
	}
}

func TestReleaseCanceled(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	m := newMirror(t, func(m *mirror, w http.ResponseWriter, r *http.Request) {
		cancel()
		stalled(m, w, r)
	})
	dir := t.TempDir()

	_, err := release(dir, &bar{}).Provide(ctx, m.pin(t), "amd64", selection(t, few...), t.TempDir())
	if !errors.Is(err, context.Canceled) || m.requests.Load() != 1 {
		t.Errorf("after %d requests the error is %v", m.requests.Load(), err)
	}

	checkEmpty(t, dir)
}

func TestReleaseServerGone(t *testing.T) {
	t.Parallel()

	m := newMirror(t, good)
	m.Close()

	_, err := release(t.TempDir(), &bar{}).Provide(t.Context(), m.pin(t), "amd64", selection(t, few...), t.TempDir())
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error is %v", err)
	}
}

func TestReleaseThroughProxy(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 1)
	m := newMirror(t, func(m *mirror, w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()

		good(m, w, r)
	})

	proxy, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}

	source := release(t.TempDir(), &bar{})
	source.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}

	pin := m.pin(t)
	pin.Release.URL = "http://releases.invalid/{version}/cni-plugins-linux-{arch}-{version}.tgz"

	if _, err := source.Provide(t.Context(), pin, "amd64", selection(t, few...), t.TempDir()); err != nil {
		t.Fatal(err)
	}

	if got := <-asked; got != pin.Release.URLFor("v1.9.1", "amd64") {
		t.Errorf("the proxy was asked for %s", got)
	}
}

func TestReleaseWithoutSum(t *testing.T) {
	t.Parallel()

	m := newMirror(t, good)
	want := "pin v1.9.1 has no release sum for arm64: use --source module, or add the sum to a pin file"

	_, err := release(t.TempDir(), &bar{}).Provide(t.Context(), m.pin(t), "arm64", selection(t, few...), t.TempDir())
	if err == nil || err.Error() != want || m.requests.Load() != 0 {
		t.Errorf("after %d requests the error is %v", m.requests.Load(), err)
	}
}

// TestReleaseFullDisk: a full disk does not pass by itself, so nobody is asked twice.
func TestReleaseFullDisk(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	buildertest.Mount(t, "tmpfs", dir, "tmpfs", 0, "size=64k")

	m := newMirror(t, good)

	_, err := release(dir, &bar{}).Provide(t.Context(), m.pin(t), "amd64", selection(t, few...), t.TempDir())
	if !errors.Is(err, syscall.ENOSPC) || m.requests.Load() != 1 {
		t.Errorf("after %d requests the error is %v", m.requests.Load(), err)
	}

	checkEmpty(t, dir)
}

// TestReleaseRepairsItsCache: an archive that was damaged after it was checked is fetched again.
func TestReleaseRepairsItsCache(t *testing.T) {
	t.Parallel()

	m, dir, wanted := newMirror(t, good), t.TempDir(), selection(t, few...)
	pin := m.pin(t)

	for range 2 {
		if _, err := release(dir, &bar{}).Provide(t.Context(), pin, "amd64", wanted, t.TempDir()); err != nil {
			t.Fatal(err)
		}

		cached, err := filepath.Glob(filepath.Join(dir, "downloads", "*"))
		if err != nil || len(cached) != 1 {
			t.Fatalf("the cache holds %q: %v", cached, err)
		}

		if err := os.Truncate(cached[0], 100); err != nil {
			t.Fatal(err)
		}
	}

	if got := m.requests.Load(); got != 2 {
		t.Errorf("%d requests", got)
	}
}
