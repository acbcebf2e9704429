package watch

import (
	"bytes"
	"strings"
)

// maxRequest bounds the head of a request, many times what probes and Prometheus send.
const maxRequest = 4 << 10

// request is what matters of an HTTP request.
type request struct {
	method, path string
}

// headEnd returns the length of a request's head, the empty line included; -1 where it has not come
// whole.
func headEnd(data []byte) int {
	i := bytes.Index(data, []byte("\r\n\r\n"))
	if i < 0 {
		return -1
	}

	return i + 4
}

// parseRequest reads the head of a request. The status is 0, or the one to refuse it with. What
// comes after the head is nobody's concern: no request that is answered has a body.
func parseRequest(head []byte) (r request, status int) {
	line, rest, _ := strings.Cut(string(head), "\r\n")

	method, line, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(line, " ")

	switch {
	case !ok || !ok2 || !isToken(method) || !visible(target):
		return r, 400
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		if strings.HasPrefix(version, "HTTP/") {
			return r, 505
		}

		return r, 400
	case !goodFields(rest):
		return r, 400
	}

	// The form that proxies are sent has the server's own address before the path.
	if scheme, after, ok := strings.Cut(target, "://"); ok && strings.EqualFold(scheme, "http") {
		i := strings.IndexAny(after, "/?")
		if i < 0 || after[i] == '?' {
			return request{method, "/"}, 0
		}

		target = after[i:]
	}

	path, _, _ := strings.Cut(target, "?")

	if !strings.HasPrefix(path, "/") {
		return r, 400
	}

	return request{method, path}, 0
}

// goodFields reports whether header fields are lines of "name: value".
func goodFields(fields string) bool {
	for line := range strings.SplitSeq(strings.TrimSuffix(fields, "\r\n\r\n"), "\r\n") {
		name, value, ok := strings.Cut(line, ":")

		switch {
		case line == "" || line == "\r\n":
		case !ok || !isToken(name):
			return false
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return false
		}
	}

	return true
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func visible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
