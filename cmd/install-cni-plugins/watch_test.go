package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// watching is the program as it is shipped, watching a place.
type watching struct {
	place
	testing.TB
	cmd     *exec.Cmd
	address string
	mu      sync.Mutex
	log     bytes.Buffer
}

func (w *watching) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.log.Write(p)
}

func (w *watching) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.log.String()
}

// freeAddress returns a loopback address nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)

	defer l.Close()

	return l.Addr().String()
}

// watch starts the program; wrapper is a shell script that runs it as "$@".
func (p place) watch(t testing.TB, wrapper string, args ...string) *watching {
	t.Helper()

	w := &watching{place: p, TB: t, address: freeAddress(t)}
	line := append([]string{
		"-c", wrapper, "sh", binary(t), "watch", "--source", p.source, "--dest", p.dest, "--state-dir", p.state,
		"--interval", "1h", "--listen", w.address,
	}, args...)

	w.start(exec.Command("sh", line...))

	return w
}

func (w *watching) start(cmd *exec.Cmd) {
	w.Helper()

	w.cmd, cmd.Stdout, cmd.Stderr = cmd, w, w
	must(w, cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// get returns status and body of a page; 0 where there is no answer.
func (w *watching) get(path string) (int, string) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

	response, err := client.Get("http://" + w.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}

	return response.StatusCode, string(body)
}

func (w *watching) metric(series string) string {
	_, body := w.get("/metrics")

	found := regexp.MustCompile(`(?m)^cni_plugins_` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(body)
	if found == nil {
		return ""
	}

	return found[1]
}

// until waits for a condition; the deadline is for one that never holds.
func (w *watching) until(what string, holds func() bool) {
	w.Helper()

	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_, status := w.get("/readyz")
			w.Fatalf("after a minute it does not hold that %s; it says %q and logged\n%s", what, status, w.logged())
		}
	}
}

// content waits until every plugin is verified to be right.
func (w *watching) content() {
	w.Helper()
	w.until("all is right", func() bool {
		code, _ := w.get("/readyz")

		return code == http.StatusOK && w.metric("unknown") == "0" && w.metric("altered") == "0"
	})
}

// end sends the signal that Kubernetes sends, and wants a good end.
func (w *watching) end() {
	w.Helper()
	must(w, w.cmd.Process.Signal(syscall.SIGTERM))

	if err := w.cmd.Wait(); err != nil {
		w.Errorf("it ends with %v and logged\n%s", err, w.logged())
	}
}

func TestWatchUsage(t *testing.T) {
	t.Parallel()

	for text, c := range map[string]struct{ environ, args []string }{
		`"500ms" is not between 1s and 24h0m0s`:              {nil, []string{"--interval", "500ms"}},
		`"5" is not a duration such as 90s, 5m or 1h`:        {nil, []string{"--interval", "5"}},
		`CNI_INSTALL_INTERVAL="25h"`:                         {[]string{"CNI_INSTALL_INTERVAL=25h"}, nil},
		`CNI_INSTALL_LISTEN="localhost:1"`:                   {[]string{"CNI_INSTALL_LISTEN=localhost:1"}, nil},
		`CNI_INSTALL_RESTORE_ALTERED="maybe"`:                {[]string{"CNI_INSTALL_RESTORE_ALTERED=maybe"}, nil},
		`CNI_INSTALL_DISTRO="k4s"`:                           {[]string{"CNI_INSTALL_DISTRO=k4s"}, nil},
		`"127.0.0.1" is not an address to listen at`:         {nil, []string{"--listen", "127.0.0.1"}},
		`flag provided but not defined: -o`:                  {nil, []string{"-o", "json"}},
		`"install-cni-plugins help" shows how it is used`:    {nil, []string{"--update", "always"}},
		`--dest is empty`:                                    {nil, []string{"--dest", ""}},
		`SKIP_CNI_BINARIES: "," names no plugin`:             {[]string{"SKIP_CNI_BINARIES=,"}, nil},
		`unexpected argument "bridge"`:                       {nil, []string{"bridge"}},
		`give IPV4:PORT, [IPV6]:PORT, :PORT or off`:          {nil, []string{"--listen", "no"}},
		`"3000000000h" is not a duration such as 90s, 5m or`: {nil, []string{"--interval", "3000000000h"}},
	} {
		o := invoke(t, c.environ, append([]string{"watch"}, c.args...)...)
		wantEqual(t, "exit code", o.code, 2)
		wantText(t, "stderr", o.stderr, text)
	}
}

// The whole of a watch's life, by the program itself and its environment variables.
func TestWatch(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "static", "tuning", "bridge")
	w := p.watch(t, `CNI_INSTALL_SKIP=bridge exec "$@"`)
	w.content()
	wantEqual(t, "wanted", w.metric("wanted"), "2")

	must(t, os.Remove(filepath.Join(p.dest, "static")))
	w.until("static is restored", func() bool { return w.metric(`restored_total{reason="missing"}`) == "3" })
	w.content()

	write(t, filepath.Join(p.dest, "tuning"), "altered")
	w.until("the altered file is seen", func() bool { return w.metric("altered") == "1" })

	code, _ := w.get("/readyz")
	wantEqual(t, "readiness with an altered plugin", code, 200)

	w.end()
	wantText(t, "log", w.logged(),
		"level=info msg=watching source="+p.source+" dest="+p.dest+" interval=1h0m0s version=",
		"level=info msg=restored plugin=static reason=missing digest=", "level=info msg=ready pin=v1.9.1 wanted=2\n",
		"level=warn msg=altered plugin=tuning digest=")

	entries, err := os.ReadDir(p.dest)
	must(t, err)
	wantEqual(t, "entries", len(entries), 2)

	o := invoke(t, nil, "uninstall", "--dest", p.dest, "--state-dir", p.state)
	wantText(t, "uninstall", o.stdout, "static: removed\n", "tuning: left")
}

// A signal in the middle of writing leaves nothing behind.
func TestWatchEndsWhileWriting(t *testing.T) {
	t.Parallel()

	p := place{source: testplugins.Payload(t, testplugins.Unstripped), dest: t.TempDir(), state: t.TempDir()}

	for i := range 10 {
		must(t, os.RemoveAll(p.dest))
		must(t, os.Mkdir(p.dest, 0o755))

		w := p.watch(t, `exec "$@"`)
		w.until("it writes", func() bool {
			entries, _ := os.ReadDir(p.dest)

			return len(entries) > i
		})
		w.end()

		known := testplugins.ManifestOf(t, p.source)
		entries, err := os.ReadDir(p.dest)
		must(t, err)

		for _, e := range entries {
			plugin, ok := known.Lookup(e.Name())
			digest, _, err := payload.DigestFile(filepath.Join(p.dest, e.Name()))

			if !ok || err != nil || digest != plugin.Digest {
				t.Errorf("it leaves %s with %s, %v", e.Name(), digest, err)
			}
		}
	}
}

// A node whose inotify is used up, as a user namespace of its own has it.
func TestWatchWithoutInotify(t *testing.T) {
	t.Parallel()
	testplugins.NeedTool(t, "unshare", "util-linux")

	for limit, want := range map[string]string{
		"max_inotify_instances": "too many open files (raise fs.inotify.max_user_instances); looking every 1s only",
		"max_inotify_watches":   "no space left on device (raise fs.inotify.max_user_watches); looking every 1s only",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()

			script := fmt.Sprintf(`echo 0 >/proc/sys/user/%s && exec "$@"`, limit)
			testplugins.Need(t, exec.Command("unshare", "-Ur", "sh", "-c", script, "sh", "true").Run(), "user namespaces")

			w := newPlace(t, "static").watch(t, `exec unshare -Ur sh -c '`+script+`' sh "$@"`, "--interval", "1s")
			w.content()
			wantEqual(t, "inotify_active", w.metric("inotify_active"), "0")

			must(t, os.Remove(filepath.Join(w.dest, "static")))
			w.until("static is restored", func() bool { return w.metric(`restored_total{reason="missing"}`) == "2" })
			w.end()

			if count := strings.Count(w.logged(), want); count != 1 {
				t.Errorf("%q is logged %d times:\n%s", want, count, w.logged())
			}
		})
	}
}

// A log that nobody reads any more is no reason to end, nor for a bad end.
func TestWatchWithoutAReader(t *testing.T) {
	t.Parallel()

	p := newPlace(t, "static")
	w := p.watch(t, `exec "$@" >/dev/full`)
	w.content()
	must(t, os.Remove(filepath.Join(p.dest, "static")))
	w.until("static is restored", func() bool { return w.metric(`restored_total{reason="missing"}`) == "2" })
	w.end()
}

// All of it within the memory of a small container: filling the directory, restoring, a crowd of
// clients, and nothing at all at rest.
func TestWatchNeedsLittle(t *testing.T) {
	const limit = 16 << 20

	g := newGroup(t, fmt.Sprintf("install-cni-plugins-%d-watch", os.Getpid()))
	must(t, os.WriteFile(filepath.Join(g.dir, g.limit), fmt.Append(nil, limit), 0))

	p := place{source: testplugins.Payload(t, testplugins.Unstripped), dest: t.TempDir(), state: t.TempDir()}
	evict(t, p.source)

	w := p.watch(t, `echo $$ >`+g.dir+`/cgroup.procs && exec "$@"`)
	w.content()

	for _, name := range []string{"bridge", "vlan", "static"} {
		must(t, os.Remove(filepath.Join(p.dest, name)))
	}

	for range 200 {
		c, err := net.Dial("tcp", w.address)
		must(t, err)

		defer c.Close()
	}

	w.until("all are restored", func() bool { return w.metric(`restored_total{reason="missing"}`) == "17" })
	w.content()

	data, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	must(t, err)
	t.Logf("peak: %s", bytes.TrimSpace(data))

	// The clock of a machine under load proves little; that nothing is done, the counters tell.
	count := func() string { return w.metric("verifications_total") + " " + w.metric("hashed_files_total") }
	last, since := count(), time.Now()

	w.until("it neither looks nor reads for 3 s", func() bool {
		if now := count(); now != last {
			last, since = now, time.Now()
		}

		return time.Since(since) > 3*time.Second
	})

	w.end()
}
