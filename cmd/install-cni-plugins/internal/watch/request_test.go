package watch

import (
	"bufio"
	"bytes"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseRequest(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]struct {
		request
		status int
	}{
		"GET /readyz HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n": {request{"GET", "/readyz"}, 0},
		"HEAD /livez?verbose HTTP/1.0\r\n\r\n":                   {request{"HEAD", "/livez"}, 0},
		"GET http://127.0.0.1:9797/metrics HTTP/1.1\r\n\r\n":     {request{"GET", "/metrics"}, 0},
		"GET http://127.0.0.1 HTTP/1.1\r\n\r\n":                  {request{"GET", "/"}, 0},
		"POST / HTTP/1.1\r\n\r\n":                                {request{"POST", "/"}, 0},
		"PRI * HTTP/2.0\r\n\r\n":                                 {request{}, 505},
		"GET / HTTP/1.1 \r\n\r\n":                                {request{}, 505},
		"GET /\r\n\r\n":                                          {request{}, 400},
		"GET  / HTTP/1.1\r\n\r\n":                                {request{}, 400},
		"G(T / HTTP/1.1\r\n\r\n":                                 {request{}, 400},
		"GET * HTTP/1.1\r\n\r\n":                                 {request{}, 400},
		"GET / HTTP/1.1\r\nno colon\r\n\r\n":                     {request{}, 400},
		"GET / HTTP/1.1\r\n folded: x\r\n\r\n":                   {request{}, 400},
		"GET / HTTP/1.1\r\na: b\x00c\r\n\r\n":                    {request{}, 400},
		"\x16\x03\x01\x02\r\n\r\n":                               {request{}, 400},
		"\r\n\r\n":                                               {request{}, 400},
	} {
		r, status := parseRequest([]byte(text))
		if r != want.request || status != want.status {
			t.Errorf("%q: got %+v, %d, want %+v, %d", text, r, status, want.request, want.status)
		}
	}
}

// What is taken for a good request is one for the standard library too, and the same.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/metrics?x HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", "\r\n\r\n",
		"GET /a%2fb HTTP/1.1\r\nA: b\r\nC:\td\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		end := headEnd(data)
		if end < 0 {
			return
		}

		r, status := parseRequest(data[:end])
		if status != 0 {
			return
		}

		if r.method == "" || !strings.HasPrefix(r.path, "/") {
			t.Fatalf("%q gives %+v", data, r)
		}

		switch r.path {
		case "/livez", "/readyz", "/metrics":
		default:
			return // only these are answered; of other paths the library has opinions of its own
		}

		// The library refuses some hosts and lengths, which concern nobody here.
		line, _, _ := bytes.Cut(data, []byte("\r\n"))

		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(line) + "\r\nHost: a\r\n\r\n")))
		if err != nil {
			if _, _, absolute := bytes.Cut(line, []byte("://")); absolute {
				return
			}

			t.Fatalf("%q is no request: %v", line, err)
		}

		if want.Method != r.method || want.URL.Path != r.path {
			t.Errorf("%q: %+v, want %s %s", line, r, want.Method, want.URL.Path)
		}
	})
}

func TestParseAddress(t *testing.T) {
	t.Parallel()

	for _, bad := range []string{
		"", "9797", "localhost:9797", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:+1", "127.0.0.1:01", "127.0.0.01:1",
		"::1:9797", "[::1:9797", "::1]:9797", "[127.0.0.1]:9797", "[::1%lo]:9797", "[]:9797", "[:::]:1", "256.0.0.1:1", "on",
	} {
		if a, err := ParseAddress(bad); err == nil {
			t.Errorf("%q is %+v", bad, a)
		}
	}

	all, err := ParseAddress(":9797")
	if v6, ok := all.sockaddr.(*unix.SockaddrInet6); err != nil || !ok || v6.Addr != [16]byte{} || v6.Port != 9797 {
		t.Errorf(":9797 is %+v, %v", all, err)
	}

	if off, err := ParseAddress("off"); err != nil || off.set() {
		t.Errorf("off is %+v, %v", off, err)
	}
}

// What is an address is decided as net/netip does.
func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{
		"127.0.0.1:9797", "[::1]:80", "[::]:1", "[2001:db8::8:800:200c:417a]:65535", "[::ffff:1.2.3.4]:1", "[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:7::]:1",
		"[::2:3:4:5:6:7:8]:1", "[1::2::3]:1", "[1:2:3:4:5:6:1.2.3.4]:1", "[1.2.3.4::]:1", "[0001::]:1", "[00001::]:1", "0.0.0.0:1", "[::%a]:1",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, s string) {
		// Forms of ours, and ports that are taken for a slip.
		port := s[strings.LastIndexByte(s, ':')+1:]
		if s == "off" || strings.HasPrefix(s, ":") || strings.HasPrefix(port, "0") {
			return
		}

		a, err := ParseAddress(s)

		want, wantErr := netip.ParseAddrPort(s)
		if good := wantErr == nil && want.Addr().Zone() == ""; good != (err == nil) {
			t.Fatalf("%q: %v, net/netip: %v", s, err, wantErr)
		}

		if err != nil {
			return
		}

		switch sockaddr := a.sockaddr.(type) {
		case *unix.SockaddrInet4:
			if netip.AddrFrom4(sockaddr.Addr) != want.Addr() || sockaddr.Port != int(want.Port()) {
				t.Errorf("%q is %+v", s, sockaddr)
			}
		case *unix.SockaddrInet6:
			if netip.AddrFrom16(sockaddr.Addr) != want.Addr() || sockaddr.Port != int(want.Port()) {
				t.Errorf("%q is %+v", s, sockaddr)
			}
		}
	})
}
