package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each call that works on the bin directory fails with each error number that a node has been seen
// to give: the old plugin stays, the others are staged, the reason names path, errno and remedy.
func TestInstallSurvivesEveryErrno(t *testing.T) {
	t.Parallel()

	calls := []string{"open", "create", "write", "read", "fsync", "chmod", "rename", "lstat", "stat"}
	errnos := []unix.Errno{
		unix.ENOSPC, unix.EROFS, unix.EACCES, unix.EPERM, unix.EXDEV, unix.EIO, unix.EDQUOT,
		unix.EBADF, unix.EINVAL, unix.ENOSYS, unix.EBUSY, unix.ETXTBSY, unix.ESTALE, unix.ENOMEM, unix.EMFILE,
	}

	for _, call := range calls {
		for _, errno := range errnos {
			name := fmt.Sprintf("%s %s", call, unix.ErrnoName(errno))
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				n := newNode(t)
				n.put("tuning", "old", 0o755)

				path := filepath.Join(n.dest, "tuning")
				before := snapshot(t, n.dest)["tuning"]
				hits := 0

				report := n.install(func(o *InstallOptions) {
					o.workers = 1
					source := ""
					o.system.before = func(c, p string) error {
						if c == "open" && strings.HasPrefix(p, n.source) {
							source = filepath.Base(p)
						}

						temporary := c == "create" && strings.HasPrefix(p, n.dest) && source == "tuning"
						if c == call && (p == path || temporary) {
							hits++

							return errno
						}

						return nil
					}
				})

				if hits == 0 {
					t.Fatal("this call is not made for a plugin")
				}

				got := snapshot(t, n.dest)
				text := reason(report, "tuning")

				if len(report.Failed) == 0 {
					// A file that cannot be read may still be replaced, and some calls are a help only.
					equal(t, "directory", got, n.staged())

					return
				}

				equal(t, "failed", report.Failed, []string{"tuning"})
				equal(t, "old plugin", got["tuning"], before)
				equal(t, "other plugin", got["static"], n.staged()["static"])
				equal(t, "entries", len(got), 2)
				n.consistent()

				if !strings.Contains(text, path) || !strings.Contains(text, unix.ErrnoName(errno)) || strings.Contains(text, "\n") {
					t.Errorf("the reason is no help: %s", text)
				}

				if word := remedyWords[errno]; !strings.Contains(text, word) && os.Geteuid() == 0 && call == "create" {
					t.Errorf("the reason names no remedy like %q: %s", word, text)
				}

				n.install()
				equal(t, "directory after a good run", snapshot(t, n.dest), n.staged())
				n.consistent()
			})
		}
	}
}

var remedyWords = map[unix.Errno]string{
	unix.ENOSPC: "free space", unix.EROFS: "mount it writable", unix.EACCES: "SELinux", unix.EPERM: "SELinux",
	unix.EIO: "kernel log", unix.EXDEV: "remove the mount", unix.EDQUOT: "quota", unix.EBUSY: "unmount", unix.ENOMEM: "memory limit",
}

// The same for the state directory: nothing is replaced that could not be brought back.
func TestInstallSurvivesATroubledState(t *testing.T) {
	t.Parallel()

	for _, call := range []string{"create", "write", "fsync", "rename"} {
		for _, errno := range []unix.Errno{unix.ENOSPC, unix.EIO} {
			t.Run(call+" "+unix.ErrnoName(errno), func(t *testing.T) {
				t.Parallel()

				n := newNode(t)
				n.put("tuning", "old", 0o755)
				before := snapshot(t, n.dest)["tuning"]

				report := n.install(func(o *InstallOptions) {
					o.system.before = func(c, p string) error {
						if c == call && strings.HasPrefix(p, n.state) {
							return errno
						}

						return nil
					}
				})

				got := snapshot(t, n.dest)
				equal(t, "created plugin", got["static"], n.staged()["static"])
				equal(t, "old plugin", got["tuning"], before)
				equal(t, "failed", report.Failed, []string{"tuning"})

				if text := reason(report, "tuning"); !strings.Contains(text, unix.ErrnoName(errno)) {
					t.Errorf("the reason is no help: %s", text)
				}

				n.install()
				equal(t, "directory after a good run", snapshot(t, n.dest), n.staged())
				n.consistent()

				n.uninstall()
				equal(t, "restored", snapshot(t, n.dest)["tuning"], before)
			})
		}
	}
}

func TestInstallGoesOnWhereRenamingNewFilesIsUnknown(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	n.put("tuning", "old", 0o755)
	must(t, os.Chmod(filepath.Join(n.dest, "tuning"), 0))

	// Another writer that keeps changing a name ends in a failure, not in a loop.
	report := n.install(func(o *InstallOptions) {
		o.workers = 1
		count := 0
		o.system.before = func(call, path string) error {
			if call == "fsync" && path == filepath.Join(n.dest, "tuning") {
				count++
				tmp := filepath.Join(n.dest, "other-writer")
				write(t, tmp, fmt.Sprint("theirs", count), 0o755)
				must(t, os.Rename(tmp, filepath.Join(n.dest, "tuning")))
			}

			return nil
		}
	})

	equal(t, "failed", report.Failed, []string{"tuning"})

	if text := reason(report, "tuning"); !strings.Contains(text, "another writer") {
		t.Errorf("the reason is no help: %s", text)
	}

	noLitter(t, n.dest)
	n.consistent()
}

// What another writer puts there while we copy is kept too, and comes back.
func TestInstallKeepsWhatAnotherWriterPutThereMeanwhile(t *testing.T) {
	t.Parallel()

	n := newNode(t)
	once := false

	report := n.install(func(o *InstallOptions) {
		o.workers = 1
		o.system.before = func(call, path string) error {
			if call == "fsync" && path == filepath.Join(n.dest, "static") && !once {
				once = true
				n.put("static", "theirs", 0o755)
			}

			return nil
		}
	})

	equal(t, "action", actions(report)["static"], "replaced foreign")
	equal(t, "directory", snapshot(t, n.dest), n.staged())
	n.consistent()

	n.uninstall()

	data, err := os.ReadFile(filepath.Join(n.dest, "static"))
	must(t, err)
	equal(t, "restored", string(data), "theirs")
}
