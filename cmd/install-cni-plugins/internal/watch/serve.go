package watch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// This is as much of an HTTP server as probes and Prometheus need. Package net/http would make the
// installer twice as large, package net alone half a megabyte larger.

const (
	// maxConnections bounds the memory; beyond it the oldest connection makes room. One that sends
	// its request when it connects has been answered before it is old enough for that.
	maxConnections = 16
	minAge         = 50 * time.Millisecond
	// patienceWithClients is for a whole request and its answer.
	patienceWithClients = 5 * time.Second
	// maxLeftover is what is read of a refused request, so that the client sees the answer instead
	// of a reset.
	maxLeftover = 64 << 10
	// relisten is how long to wait before trying again where the address cannot be had.
	relisten = 10 * time.Second
)

// serve answers HTTP until ctx is done. An address that is taken must not end the watch, which is
// about the plugins: it is tried again.
func (w *watcher) serve(ctx context.Context) {
	for ctx.Err() == nil {
		listener, err := listen(w.Listen)
		if err == nil {
			w.journal.problem("listen", "")

			stop := context.AfterFunc(ctx, func() { listener.Close() })
			err = w.accept(listener)

			stop()
			listener.Close()
		}

		if ctx.Err() == nil {
			w.journal.problem("listen", err.Error())
			pause(ctx, relisten)
		}
	}
}

func listen(a Address) (*os.File, error) {
	fail := func(err error) error { return fmt.Errorf("listening at %s: %w", a, err) }

	const kind = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC

	fd, err := unix.Socket(a.family, kind, 0)
	if err == unix.EAFNOSUPPORT && a.fallback != nil {
		a.family, a.sockaddr = unix.AF_INET, a.fallback
		fd, err = unix.Socket(a.family, kind, 0)
	}

	if err != nil {
		return nil, fail(err)
	}

	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && a.family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}

	if err == nil {
		err = unix.Bind(fd, a.sockaddr)
	}

	if err == nil {
		err = unix.Listen(fd, 2*maxConnections)
	}

	if err != nil {
		unix.Close(fd)

		return nil, fail(err)
	}

	return os.NewFile(uintptr(fd), "listener"), nil
}

// accept serves connections until the listener fails.
func (w *watcher) accept(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}

	var open connections

	for {
		var (
			fd    int
			errno unix.Errno
		)

		err := raw.Read(func(l uintptr) bool {
			// Not unix.Accept4, which knows the address of every kind of peer.
			var f uintptr

			f, _, errno = unix.Syscall6(unix.SYS_ACCEPT4, l, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
			fd = int(f)

			return errno != unix.EAGAIN
		})

		switch {
		case err != nil:
			return err
		case errno == 0:
			file := os.NewFile(uintptr(fd), "connection")
			open.add(file)

			go func() {
				defer open.remove(file)
				w.converse(file)
			}()
		case errno == unix.EINVAL, errno == unix.EBADF, errno == unix.ENOTSOCK:
			return errno
		case errno == unix.EMFILE, errno == unix.ENFILE, errno == unix.ENOBUFS, errno == unix.ENOMEM:
			time.Sleep(breath)
		}
	}
}

// connections are those that are open, the oldest first.
type connections struct {
	mu   sync.Mutex
	list []connection
}

type connection struct {
	*os.File
	since time.Time
}

// add makes room and takes a connection in. It is called by one goroutine only.
func (c *connections) add(file *os.File) {
	c.mu.Lock()

	if len(c.list) == maxConnections {
		oldest := c.list[0]

		c.mu.Unlock()
		time.Sleep(minAge - time.Since(oldest.since))
		c.remove(oldest.File)
		c.mu.Lock()
	}

	defer c.mu.Unlock()

	c.list = append(c.list, connection{file, time.Now()})
}

func (c *connections) remove(file *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.list = slices.DeleteFunc(c.list, func(o connection) bool { return o.File == file })

	file.Close()
}

// converse answers one request and ends the connection.
func (w *watcher) converse(file *os.File) {
	if file.SetDeadline(time.Now().Add(patienceWithClients)) != nil {
		return // never without
	}

	var r request

	buf := make([]byte, maxRequest)
	end, n := -1, 0
	status := 431

	for n < len(buf) && end < 0 {
		k, err := file.Read(buf[n:])
		if n += k; err != nil {
			return
		}

		end = headEnd(buf[:n])
	}

	if end >= 0 {
		r, status = parseRequest(buf[:end])
	}

	if _, err := file.Write(w.respond(r, status)); err != nil {
		return
	}

	raw, err := file.SyscallConn()
	if err != nil || raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) != nil {
		return
	}

	for read := 0; read < maxLeftover; {
		k, err := file.Read(buf)
		if read += k; err != nil {
			return
		}
	}
}
