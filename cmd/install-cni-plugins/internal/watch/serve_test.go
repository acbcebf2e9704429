package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// free returns an address nobody listens at.
func free(t testing.TB, network string) Address {
	t.Helper()

	l, err := net.Listen("tcp", network)
	testplugins.Need(t, err, network)

	defer l.Close()

	a, err := ParseAddress(l.Addr().String())
	must(t, err)

	return a
}

// served is a watcher over a complete directory that answers at an address.
func served(t testing.TB, network string) (*node, *stepped, string) {
	t.Helper()

	n := newNode(t)
	n.fill()

	s := n.step(func(o *Options) { o.Listen = free(t, network) })
	ctx, cancel := context.WithCancel(context.Background())

	var running sync.WaitGroup

	running.Go(func() { s.serve(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})

	address := s.Listen.String()
	until(t, "it listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}

		return err == nil
	})

	return n, s, address
}

// get asks as a probe does: with a second of patience, on a connection of its own.
func get(t testing.TB, method, url string) (*http.Response, string) {
	t.Helper()

	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)

	response, err := client.Do(request)
	must(t, err)

	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	must(t, err)

	return response, string(body)
}

func TestAnswers(t *testing.T) {
	t.Parallel()

	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()

			n, s, address := served(t, network)

			want := func(method, path string, status int, parts ...string) *http.Response {
				t.Helper()

				response, body := get(t, method, "http://"+address+path)
				if response.StatusCode != status {
					t.Errorf("%s %s is %d, want %d", method, path, response.StatusCode, status)
				}

				for _, part := range parts {
					if !strings.Contains(body, part) {
						t.Errorf("%s %s lacks %q: %s", method, path, part, body)
					}
				}

				if method == http.MethodHead && body != "" {
					t.Errorf("HEAD %s has a body: %s", path, body)
				}

				return response
			}

			want("GET", "/livez", 200, "ok\n")
			want("GET", "/readyz?verbose", 200, "ok\n")
			want("HEAD", "/readyz", 200)
			want("GET", "/", 404)
			want("GET", "/metrics/", 404)

			if allow := want("POST", "/metrics", 405).Header.Get("Allow"); allow != "GET, HEAD" {
				t.Errorf("Allow is %q", allow)
			}

			if kind := want("GET", "/metrics", 200, "cni_plugins_missing 0\n").Header.Get("Content-Type"); kind != "text/plain; version=0.0.4; charset=utf-8" {
				t.Errorf("the type is %q", kind)
			}

			must(t, os.Rename(n.dest, n.dest+".away"))
			s.look()
			want("GET", "/readyz", 503, "ENOENT")
			want("HEAD", "/readyz", 503)
			want("GET", "/livez", 200)

			must(t, os.Rename(n.dest+".away", n.dest))
			s.settle()
			want("GET", "/readyz", 200)

			// Nobody may take an old look for a new one.
			n.mu.Lock()
			n.time = n.time.Add(3 * time.Hour)
			n.mu.Unlock()
			want("GET", "/readyz", 503, "has not been looked at")
		})
	}
}

// The text is what Prometheus reads: each family once, with help and type before its samples.
func TestExposition(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	s := n.step(func(o *Options) { o.Version = "v1 \"of\\\nmine" })

	family, seen := "", map[string]bool{}
	sample := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? [0-9.e+]+$`)

	for line := range strings.Lines(string(s.pages.Load().metrics)) {
		line = strings.TrimSuffix(line, "\n")

		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, _, _ = strings.Cut(rest, " ")

			if seen[family] || !strings.HasPrefix(family, "cni_plugins_") {
				t.Errorf("%s is there twice or not ours", family)
			}

			seen[family] = true

			continue
		}

		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			kind := strings.TrimPrefix(rest, family+" ")
			if kind != "gauge" && kind != "counter" || strings.HasSuffix(family, "_total") != (kind == "counter") {
				t.Errorf("%s has type %q", family, kind)
			}

			continue
		}

		if found := sample.FindStringSubmatch(line); found == nil || found[1] != family {
			t.Errorf("no sample of %s: %q", family, line)
		}
	}

	if !strings.Contains(string(s.pages.Load().metrics), `version="v1 \"of\\\nmine"`) {
		t.Errorf("the version is not escaped: %s", s.pages.Load().metrics)
	}
}

// An address that is taken keeps nobody from restoring, and is had when it is free.
func TestAddressTaken(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)

	a, err := ParseAddress(l.Addr().String())
	must(t, err)

	n := newNode(t)
	n.start(func(o *Options) { o.Listen = a })
	until(t, "the directory is filled", func() bool { return n.right("static") && n.right("tuning") })
	until(t, "it is told", func() bool { return n.log.lines("level=warn", "about=listen", "address already in use") == 1 })
	l.Close()
	until(t, "it listens", func() bool {
		_, err := http.Get("http://" + a.String() + "/livez")

		return err == nil
	})
}

// Clients that say nothing, too little, too much or something else cost little and block nobody.
func TestHostileClients(t *testing.T) {
	t.Parallel()

	_, s, address := served(t, "127.0.0.1:0")

	var before, after runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&before)

	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		must(t, err)
		t.Cleanup(func() { c.Close() })

		return c
	}

	var slow []net.Conn

	for i := range 300 {
		c := dial()
		slow = append(slow, c)

		switch i % 4 {
		case 0: // says nothing
		case 1:
			fmt.Fprint(c, "GET /metrics HT")
		case 2:
			fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nX: ")
		case 3: // never reads the answer
			fmt.Fprint(c, "GET /metrics HTTP/1.1\r\n\r\n")
		}

		if i%50 == 0 {
			if response, _ := get(t, "GET", "http://"+address+"/readyz"); response.StatusCode != 200 {
				t.Errorf("a probe gets %d", response.StatusCode)
			}
		}
	}

	runtime.ReadMemStats(&after)

	if grown := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse); grown > 8<<20 {
		t.Errorf("the clients cost %d bytes", grown)
	}

	// All of them are sent away in the end.
	for _, c := range slow {
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))

		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection stays open")
		}
	}

	for request, want := range map[string]string{
		"GET /metrics HTTP/1.1\r\nX: " + strings.Repeat("x", maxRequest): "HTTP/1.1 431 ",
		"GET /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\n\r\n":       "HTTP/1.1 431 ",
		"GET / HTTP/3.0\r\n\r\n":                                               "HTTP/1.1 505 ",
		"\x16\x03\x01\x00\xa5\x01\r\n\r\n":                                     "HTTP/1.1 400 ",
		"POST /livez HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello":               "HTTP/1.1 405 ",
		"GET /livez HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\n":              "HTTP/1.1 200 ",
		"GET /livez HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nnever the rest": "HTTP/1.1 200 ",
	} {
		c := dial()

		// A reset while the rest is being sent is an answer too, but not one of ours here.
		go func() { _, _ = io.WriteString(c, request) }()

		answer, err := io.ReadAll(io.LimitReader(c, int64(len(want))))
		if !bytes.HasPrefix(answer, []byte(want)) {
			t.Errorf("%.40q is answered by %q, %v", request, answer, err)
		}
	}

	s.look()
	s.wantMetric("ready", "1")
}

// Beyond the limit the oldest connection goes.
func TestConnectionsMakeRoom(t *testing.T) {
	t.Parallel()

	var (
		open  connections
		files []*os.File
	)

	for range maxConnections + 2 {
		r, w, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() { r.Close(); w.Close() })

		files = append(files, w)
		open.add(w)
	}

	for i, file := range files {
		if _, err := file.Write([]byte("x")); (err != nil) != (i < 2) {
			t.Errorf("connection %d: %v", i, err)
		}
	}

	if len(open.list) != maxConnections {
		t.Errorf("%d connections are open", len(open.list))
	}

	open.remove(files[5])

	if len(open.list) != maxConnections-1 {
		t.Errorf("%d connections are open", len(open.list))
	}
}

// stuck is a log whose reader has stopped reading.
type stuck struct {
	buffer
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	n, err := s.buffer.Write(p)

	if s.lines("level=") > 1 {
		<-s.release
	}

	return n, err
}

// The program ends at once although something hangs: another installer that holds the lock, or a log
// that takes no more.
func TestRunEndsAtOnce(t *testing.T) {
	t.Parallel()

	for name, hang := range map[string]func(t *testing.T, n *node, o *Options){
		"lock": func(t *testing.T, n *node, _ *Options) { hold(t, n.dest) },
		"log": func(t *testing.T, n *node, o *Options) {
			n.fill()

			s := &stuck{release: make(chan struct{})}
			t.Cleanup(func() { close(s.release) })
			o.Log = s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			n := newNode(t)
			o := n.options()
			hang(t, n, &o)

			w := newWatcher(o)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})

			go func() {
				defer close(done)
				w.run(ctx)
			}()

			if s, ok := o.Log.(*stuck); ok {
				until(t, "the log is full", func() bool { return s.lines("level=") == 2 })
			} else {
				until(t, "it watches", func() bool { return n.log.lines("msg=watching") == 1 })
			}

			cancel()

			select {
			case <-done:
			case <-time.After(20 * time.Second): // well before it would give up waiting for the lock
				t.Fatal("it does not end")
			}

			if _, err := os.Stat(filepath.Join(n.dest, "static")); name == "lock" && err == nil {
				t.Error("it wrote without the lock")
			}
		})
	}
}
