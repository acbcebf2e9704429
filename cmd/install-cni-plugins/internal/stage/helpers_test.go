package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
	"github.com/cnibake/cnibake/profiles/distro"
)

// node is a payload, a bin directory and a state directory.
type node struct {
	testing.TB
	source, dest, state string
}

// newNode has an empty bin directory and a payload of some of the pinned plugins; without names, of
// static and tuning.
func newNode(t testing.TB, names ...string) *node {
	t.Helper()

	if len(names) == 0 {
		names = []string{"static", "tuning"}
	}

	return &node{TB: t, source: testplugins.Payload(t, testplugins.Stripped, names...), dest: t.TempDir(), state: t.TempDir()}
}

func (n *node) options(edit ...func(*InstallOptions)) InstallOptions {
	o := InstallOptions{Source: n.source, Dest: n.dest, StateDir: n.state, Update: Always}
	for _, e := range edit {
		e(&o)
	}

	return o
}

func (n *node) install(edit ...func(*InstallOptions)) *Report {
	n.Helper()

	report, err := Install(context.Background(), n.options(edit...))
	if err != nil {
		n.Fatalf("Install: %v", err)
	}

	return report
}

func (n *node) uninstall(edit ...func(*UninstallOptions)) *Report {
	n.Helper()

	o := UninstallOptions{Source: n.source, Dest: n.dest, StateDir: n.state}
	for _, e := range edit {
		e(&o)
	}

	report, err := Uninstall(context.Background(), o)
	if err != nil {
		n.Fatalf("Uninstall: %v", err)
	}

	return report
}

func (n *node) verify(edit ...func(*VerifyOptions)) *Verification {
	n.Helper()

	o := VerifyOptions{Source: n.source, Dest: n.dest}
	for _, e := range edit {
		e(&o)
	}

	v, err := Verify(context.Background(), o)
	if err != nil {
		n.Fatalf("Verify: %v", err)
	}

	return v
}

// put makes a foreign file in the bin directory.
func (n *node) put(name, content string, perm os.FileMode) {
	n.Helper()
	write(n, filepath.Join(n.dest, name), content, perm)
}

func write(t testing.TB, path, content string, perm os.FileMode) {
	t.Helper()

	if err := os.WriteFile(path, []byte(content), perm); err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
}

// rebuild gives plugins of the payload other bytes, as a newer build would, and rewrites the
// manifest. They stay programs that run.
func (n *node) rebuild(names ...string) {
	n.Helper()

	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(n.source, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			n.Fatal(err)
		}

		if _, err := f.WriteString("another build"); err != nil {
			n.Fatal(err)
		}

		f.Close()
	}

	testplugins.WriteManifest(n, n.source, testplugins.ManifestOf(n, n.source))
}

// drop takes plugins out of the payload.
func (n *node) drop(names ...string) {
	n.Helper()

	for _, name := range names {
		if err := os.Remove(filepath.Join(n.source, name)); err != nil {
			n.Fatal(err)
		}
	}

	testplugins.WriteManifest(n, n.source, testplugins.ManifestOf(n, n.source))
}

// snapshot describes a directory: kind, mode, owner, digest or target of every entry.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	seen := map[string]string{}

	for _, e := range entries {
		path := filepath.Join(dir, e.Name())

		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}

		what := kindOf(st.Mode).String()

		switch kindOf(st.Mode) {
		case symlink:
			what, err = os.Readlink(path)
		case regular:
			what, _, err = payload.DigestFile(path)
		}

		if err != nil {
			t.Fatal(err)
		}

		seen[e.Name()] = fmt.Sprintf("%04o %d:%d %s", st.Mode&0o7777, st.Uid, st.Gid, what)
	}

	return seen
}

// staged is the snapshot of a bin directory that has just these plugins of the payload.
func (n *node) staged(names ...string) map[string]string {
	n.Helper()

	m := testplugins.ManifestOf(n, n.source)
	if len(names) == 0 {
		names = m.Names()
	}

	want := map[string]string{}

	for _, name := range names {
		p, ok := m.Lookup(name)
		if !ok {
			n.Fatalf("the payload has no %s", name)
		}

		want[name] = fmt.Sprintf("0755 %d:%d %s", os.Geteuid(), os.Getegid(), p.Digest)
	}

	return want
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()

	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, pretty(got), pretty(want))
	}
}

func pretty(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Sprint(v)
	}

	return string(data)
}

// actions returns the actions of a report by name, with the reason of those that are not failures.
func actions(r *Report) map[string]string {
	seen := map[string]string{}

	for _, p := range r.Plugins {
		text := string(p.Action)
		if p.Reason != "" && p.Action != Failed {
			text += " (" + p.Reason + ")"
		}

		if p.Foreign {
			text += " foreign"
		}

		seen[p.Name] = text
	}

	return seen
}

func reason(r *Report, name string) string {
	for _, p := range r.Plugins {
		if p.Name == name {
			return p.Reason
		}
	}

	return ""
}

// readRecord returns the record of a state directory, which must be valid if it is there.
func (n *node) readRecord() map[string]entry {
	n.Helper()

	data, err := os.ReadFile(filepath.Join(n.state, recordName))
	if os.IsNotExist(err) {
		return map[string]entry{}
	} else if err != nil {
		n.Fatal(err)
	}

	r, err := parseRecord(data)
	if err != nil {
		n.Fatal(err)
	}

	if r.Directories[n.dest] == nil {
		return map[string]entry{}
	}

	return r.Directories[n.dest]
}

// consistent checks that the record is settled, that its backups are there and sound, and that
// nothing else is in the state directory.
func (n *node) consistent() {
	n.Helper()

	wanted := map[string]bool{}

	for name, e := range n.readRecord() {
		if e.Pending != nil {
			n.Errorf("record of %s is not settled", name)
		}

		if e.Done != nil && e.Done.Before != nil && e.Done.Before.Digest != "" {
			wanted[backupName(e.Done.Before.Digest)] = true
		}
	}

	have := map[string]bool{}

	entries, _ := os.ReadDir(filepath.Join(n.state, backupsName))
	for _, e := range entries {
		have[e.Name()] = true

		digest, _, err := payload.DigestFile(filepath.Join(n.state, backupsName, e.Name()))
		if err != nil || backupName(digest) != e.Name() {
			n.Errorf("backup %s has digest %s, %v", e.Name(), digest, err)
		}
	}

	if !maps.Equal(wanted, have) {
		n.Errorf("backups are %v, the record wants %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(wanted)))
	}

	entries, err := os.ReadDir(n.state)
	if err != nil {
		n.Fatal(err)
	}

	for _, e := range entries {
		if e.Name() != recordName && e.Name() != backupsName {
			n.Errorf("the state directory holds %s", e.Name())
		}
	}
}

func noLitter(t testing.TB, dir string) {
	t.Helper()

	for name := range snapshot(t, dir) {
		if strings.HasPrefix(name, ".cni-plugins-tmp-") {
			t.Errorf("%s is left in %s", name, dir)
		}
	}
}

func onDistro(t testing.TB, name string) func(*InstallOptions) {
	t.Helper()

	d, err := distro.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}

	return func(o *InstallOptions) { o.Distro = d }
}

func digestOf(content string) string {
	d := payload.NewDigester()
	d.Write([]byte(content))

	return d.Digest()
}
