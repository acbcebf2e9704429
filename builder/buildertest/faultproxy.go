package buildertest

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// FaultProxy stands before a registry, spoils what it is told to, and remembers what was asked.
type FaultProxy struct {
	// Host is the part of references before the first slash.
	Host string

	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	faults   []*Fault
	requests []string
	spoiled  int
}

// Fault is what happens to requests with a method (any when empty) and a text in their path.
type Fault struct {
	Method, Path string
	// Times bounds the requests that it happens to; 0 does not.
	Times int
	Do    Spoiler
}

// Spoiler handles a request worse than the registry would.
type Spoiler func(w http.ResponseWriter, r *http.Request, registry http.Handler)

// NewFaultProxy starts a proxy before a registry with plain HTTP.
func NewFaultProxy(t testing.TB, registry *RegistryServer, faults ...Fault) *FaultProxy {
	t.Helper()

	target, err := url.Parse(registry.URL)
	if err != nil {
		t.Fatal(err)
	}

	p := &FaultProxy{}
	p.Add(faults...)

	p.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// The registry answers with addresses made of this.
			r.Out.Host = r.In.Host
		},
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}

	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.Host = strings.TrimPrefix(server.URL, "http://")

	return p
}

// Add plans more faults.
func (p *FaultProxy) Add(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, fault := range faults {
		if fault.Times == 0 {
			fault.Times = -1
		}

		p.faults = append(p.faults, &fault)
	}
}

// Clear forgets all faults and requests.
func (p *FaultProxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.faults, p.requests = nil, nil
}

// Count returns how many requests there were with a method (any when empty) and a text in their path.
func (p *FaultProxy) Count(method, path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()

	n := 0

	for _, request := range p.requests {
		m, where, _ := strings.Cut(request, " ")
		if (method == "" || m == method) && strings.Contains(where, path) {
			n++
		}
	}

	return n
}

// Spoiled returns how many requests a fault happened to.
func (p *FaultProxy) Spoiled() int {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.spoiled
}

func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if spoil := p.next(r); spoil != nil {
		spoil(w, r, p.proxy)

		return
	}

	p.proxy.ServeHTTP(w, r)
}

func (p *FaultProxy) next(r *http.Request) Spoiler {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.requests = append(p.requests, r.Method+" "+r.URL.Path)

	for _, fault := range p.faults {
		if fault.Times != 0 && (fault.Method == "" || fault.Method == r.Method) && strings.Contains(r.URL.Path, fault.Path) {
			fault.Times--
			p.spoiled++

			return fault.Do
		}
	}

	return nil
}

// Busy answers with a status and a Retry-After header, which may be empty.
func Busy(status int, retryAfter string) Spoiler {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}

		w.WriteHeader(status)
	}
}

// DropUpload drops the connection when the registry has so many bytes of the request.
func DropUpload(after int64) Spoiler {
	return func(w http.ResponseWriter, r *http.Request, registry http.Handler) {
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, after), failing{}))
		registry.ServeHTTP(w, r)
		panic(http.ErrAbortHandler)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("dropped") }

// DropAnswer drops the connection when the registry has done what was asked.
func DropAnswer() Spoiler {
	return func(_ http.ResponseWriter, r *http.Request, registry http.Handler) {
		registry.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// DropDownload drops the connection when so many bytes of the answer have gone.
func DropDownload(after int) Spoiler {
	return func(w http.ResponseWriter, r *http.Request, registry http.Handler) {
		registry.ServeHTTP(&dropping{w, after}, r)
	}
}

type dropping struct {
	http.ResponseWriter
	left int
}

func (d *dropping) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *dropping) Write(p []byte) (int, error) {
	if len(p) < d.left {
		d.left -= len(p)

		return d.ResponseWriter.Write(p)
	}

	_, _ = d.ResponseWriter.Write(p[:d.left])
	_ = http.NewResponseController(d.ResponseWriter).Flush()

	panic(http.ErrAbortHandler)
}

// Truncate leaves the last byte of the answer out and calls it whole.
func Truncate() Spoiler {
	return alter(func(body []byte) []byte { return body[:max(len(body)-1, 0)] })
}

// Corrupt changes a byte of the answer.
func Corrupt() Spoiler {
	return alter(func(body []byte) []byte {
		body = bytes.Clone(body)
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}

		return body
	})
}

func alter(change func([]byte) []byte) Spoiler {
	return func(w http.ResponseWriter, r *http.Request, registry http.Handler) {
		recorder := httptest.NewRecorder()
		registry.ServeHTTP(recorder, r)

		body := recorder.Body.Bytes()
		if r.Method != http.MethodHead {
			body = change(body)
			recorder.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}

		for key, values := range recorder.Header() {
			w.Header()[key] = values
		}

		w.WriteHeader(recorder.Code)
		_, _ = w.Write(body)
	}
}

// Stall never answers.
func Stall() Spoiler {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// CorruptUpload changes a byte of what is sent.
func CorruptUpload() Spoiler {
	return func(w http.ResponseWriter, r *http.Request, registry http.Handler) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		registry.ServeHTTP(w, r)
	}
}
