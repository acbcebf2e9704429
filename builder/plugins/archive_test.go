package plugins_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
)

// names of the plugins that these tests move about; the whole set would only take longer.
var few = []string{"host-local", "static"}

func loadPin(t *testing.T) profiles.Pin {
	t.Helper()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	return pin
}

func selection(t *testing.T, names ...string) []profiles.Plugin {
	t.Helper()

	all, err := loadPin(t).Select(names, nil)
	if err != nil {
		t.Fatal(err)
	}

	return slices.DeleteFunc(all, func(p profiles.Plugin) bool { return !slices.Contains(names, p.Name) })
}

var pluginSets struct {
	sync.Mutex
	byArch map[string]*plugins.Set
}

// realPlugins is the real plugin set of an architecture, looked at once for all tests.
func realPlugins(t *testing.T, arch string) *plugins.Set {
	t.Helper()

	pluginSets.Lock()
	defer pluginSets.Unlock()

	if pluginSets.byArch[arch] == nil {
		if pluginSets.byArch == nil {
			pluginSets.byArch = make(map[string]*plugins.Set)
		}

		pluginSets.byArch[arch] = buildertest.Plugins(t, arch)
	}

	return pluginSets.byArch[arch]
}

// realPlugin returns the bytes of a real plugin.
func realPlugin(t *testing.T, arch, name string) []byte {
	t.Helper()

	data, err := os.ReadFile(realPlugins(t, arch).Files[name].Path)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// member is an entry of an archive.
type member struct {
	header  tar.Header
	content []byte
}

func file(name string, content []byte) member {
	return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}, content}
}

// upstreamShape is what a release asset holds, including the directory entry of older releases.
func upstreamShape(t *testing.T, arch string) []member {
	t.Helper()

	all := []member{
		{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700, Uid: 1001, Gid: 1001}, nil},
		file("./LICENSE", []byte("licence")),
		file("./README.md", []byte("readme")),
	}

	for _, name := range few {
		all = append(all, file("./"+name, realPlugin(t, arch, name)))
	}

	return all
}

func tgz(t *testing.T, members []member) []byte {
	t.Helper()

	var out bytes.Buffer

	compressor, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}

	archive := tar.NewWriter(compressor)

	for _, m := range members {
		if err := archive.WriteHeader(&m.header); err != nil {
			t.Fatal(err)
		}

		if _, err := archive.Write(m.content); err != nil {
			t.Fatal(err)
		}
	}

	// An archive whose last header claims more than follows cannot be closed, and need not be.
	_ = archive.Close()

	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// pinFor is the default pin with the sum of other archive bytes.
func pinFor(t *testing.T, arch string, archive []byte) profiles.Pin {
	t.Helper()

	pin := loadPin(t)
	sum := sha256.Sum256(archive)
	pin.Release.SHA256 = map[string]string{arch: hex.EncodeToString(sum[:])}

	return pin
}

func save(t *testing.T, name string, data []byte) string {
	t.Helper()

	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}

	return name
}

// tree lists every path below a directory with its type and mode.
func tree(t *testing.T, dir string) []string {
	t.Helper()

	var all []string

	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(dir, path)
		all = append(all, fmt.Sprintf("%s %s", info.Mode(), relative))

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return all
}

func TestArchiveOfRealPlugins(t *testing.T) {
	t.Parallel()

	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()

			archive := tgz(t, upstreamShape(t, arch))
			name := save(t, "cni-"+arch+".tgz", archive)
			work := filepath.Join(t.TempDir(), "work")

			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}

			source := &plugins.ArchiveSource{Path: strings.Replace(name, arch+".tgz", "{arch}.tgz", 1)}

			set, err := plugins.Collect(t.Context(), source, pinFor(t, arch, archive), arch, selection(t, few...), work)
			if err != nil {
				t.Fatal(err)
			}

			if m := set.Manifest; m.Source != "archive" || m.Unpinned || m.Arch != arch || m.Packaging != "separate" {
				t.Errorf("manifest is %+v", m)
			}

			if _, err := set.Manifest.Encode(); err != nil {
				t.Errorf("the manifest cannot be written: %v", err)
			}

			built := realPlugins(t, arch)

			for _, got := range set.Manifest.Plugins {
				if want, _ := built.Manifest.Lookup(got.Name); got != want {
					t.Errorf("plugin is %+v, want %+v", got, want)
				}
			}

			want := []string{"drwxr-xr-x .", "-rwxr-xr-x host-local", "-rwxr-xr-x static"}
			if diff := cmp.Diff(want, tree(t, work)); diff != "" {
				t.Errorf("work directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArchiveSum(t *testing.T) {
	t.Parallel()

	archive := tgz(t, upstreamShape(t, "amd64"))
	name := save(t, "cni.tgz", archive)
	wanted := selection(t, few...)
	pinned := loadPin(t).Release.SHA256["amd64"]

	collect := func(t *testing.T, allow bool, pin profiles.Pin) (*plugins.Set, error) {
		t.Helper()

		return plugins.Collect(t.Context(), &plugins.ArchiveSource{Path: name, AllowUnpinned: allow}, pin, "amd64", wanted, t.TempDir())
	}

	t.Run("refused", func(t *testing.T) {
		t.Parallel()

		_, err := collect(t, false, loadPin(t))
		want := fmt.Sprintf("archive %s (application/x-gzip, %d bytes) has sha256:%s, pin v1.9.1 for amd64 says sha256:%s: it is another release or was altered; accept it with --allow-unpinned",
			name, len(archive), pinFor(t, "amd64", archive).Release.SHA256["amd64"], pinned)

		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})

	t.Run("allowed and recorded", func(t *testing.T) {
		t.Parallel()

		set, err := collect(t, true, loadPin(t))
		if err != nil {
			t.Fatal(err)
		}

		if !set.Manifest.Unpinned {
			t.Error("the manifest does not record it")
		}
	})

	t.Run("allowed but right", func(t *testing.T) {
		t.Parallel()

		set, err := collect(t, true, pinFor(t, "amd64", archive))
		if err != nil {
			t.Fatal(err)
		}

		if set.Manifest.Unpinned {
			t.Error("the manifest calls a pinned archive unpinned")
		}
	})

	t.Run("pin without sum", func(t *testing.T) {
		t.Parallel()

		pin := loadPin(t)
		pin.Release.SHA256 = maps.Clone(pin.Release.SHA256)
		delete(pin.Release.SHA256, "amd64")

		_, err := collect(t, false, pin)
		if want := "archive " + name + ": pin v1.9.1 has no sum for amd64: add one, or accept the file with --allow-unpinned"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}

// TestArchiveRejects gives each bad archive with its own sum pinned: what is inside is not trusted either.
func TestArchiveRejects(t *testing.T) {
	t.Parallel()

	hostLocal, static := realPlugin(t, "amd64", "host-local"), realPlugin(t, "amd64", "static")
	good := []member{file("./host-local", hostLocal), file("./static", static)}
	whole := tgz(t, good)

	// with is the good archive with another entry for static.
	with := func(header tar.Header, content []byte) []byte {
		return tgz(t, []member{good[0], {header, content}})
	}

	claims := func(name string, size int64) member {
		return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Format: tar.FormatGNU}, nil}
	}

	crowd := []member{good[0]}
	for i := range 1000 {
		crowd = append(crowd, file(fmt.Sprintf("./extra-%d", i), nil))
	}

	ls, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		archive []byte
		want    string
	}{
		"empty file":         {nil, "not a gzip archive (it is text/plain; charset=utf-8): EOF"},
		"HTML":               {[]byte("<!DOCTYPE html><title>404</title>"), "not a gzip archive (it is text/html; charset=utf-8): gzip: invalid header"},
		"truncated":          {whole[:len(whole)/2], "unpacking host-local: unexpected EOF"},
		"truncated at once":  {whole[:15], "reading tar archive: unexpected EOF"},
		"gzip of no tar":     {gzipped(t, bytes.Repeat([]byte("junk"), 1000)), "reading tar archive: archive/tar: invalid tar header"},
		"symlink":            {with(tar.Header{Typeflag: tar.TypeSymlink, Name: "./static", Linkname: "/etc/shadow"}, nil), "static is not a regular file in it"},
		"hardlink":           {with(tar.Header{Typeflag: tar.TypeLink, Name: "./static", Linkname: "./host-local"}, nil), "static is not a regular file in it"},
		"FIFO":               {with(tar.Header{Typeflag: tar.TypeFifo, Name: "./static"}, nil), "static is not a regular file in it"},
		"device":             {with(tar.Header{Typeflag: tar.TypeChar, Name: "./static", Devmajor: 1, Devminor: 5}, nil), "static is not a regular file in it"},
		"directory":          {with(tar.Header{Typeflag: tar.TypeDir, Name: "./static"}, nil), "static is not a regular file in it"},
		"duplicate":          {tgz(t, append(slices.Clone(good), file("static", static))), "static is in it twice"},
		"one missing":        {tgz(t, good[:1]), "does not have static"},
		"all missing":        {tgz(t, nil), "does not have host-local, static"},
		"parent":             {with(tar.Header{Typeflag: tar.TypeReg, Name: "../static"}, nil), "does not have static"},
		"parent, hidden":     {with(tar.Header{Typeflag: tar.TypeReg, Name: "./a/../../static"}, nil), "does not have static"},
		"absolute":           {with(tar.Header{Typeflag: tar.TypeReg, Name: "/static"}, nil), "does not have static"},
		"in a directory":     {with(tar.Header{Typeflag: tar.TypeReg, Name: "bin/static"}, nil), "does not have static"},
		"too many entries":   {tgz(t, crowd), "has more than 1000 entries"},
		"large plugin":       {tgz(t, []member{good[0], claims("./static", 1<<29+1)}), "static has 536870913 bytes, more than a plugin can have (536870912)"},
		"bomb beside":        {tgz(t, []member{good[0], claims("./README.md", 1<<40)}), "unpacks to more than 2147483648 bytes"},
		"bomb with a plugin": {tgz(t, []member{claims("./static", 1<<50)}), "unpacks to more than 2147483648 bytes"},
		"script":             {tgz(t, []member{good[0], file("static", []byte("#!/bin/sh\n"))}), "source archive: static for amd64: not an ELF program (it is text/plain; charset=utf-8)"},
		"empty plugin":       {tgz(t, []member{good[0], file("static", nil)}), "source archive: static for amd64: not an ELF program (it is text/plain; charset=utf-8)"},
		"half a plugin":      {tgz(t, []member{good[0], file("static", static[:len(static)/2])}), "source archive: static for amd64: not an ELF program (it is application/octet-stream)"},
		"wrong architecture": {tgz(t, []member{good[0], file("static", realPlugin(t, "arm64", "static"))}), "source archive: static for amd64: is a program for arm64, not for amd64"},
		"dynamic":            {tgz(t, []member{good[0], file("static", ls)}), "source archive: static for amd64: is dynamically linked (needs /lib"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			archive := save(t, "cni.tgz", test.archive)
			work := filepath.Join(filepath.Dir(archive), "work")

			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}

			_, err := plugins.Collect(t.Context(), &plugins.ArchiveSource{Path: archive}, pinFor(t, "amd64", test.archive), "amd64", selection(t, few...), work)

			want := test.want
			if !strings.HasPrefix(want, "source ") {
				want = "archive " + archive + ": " + want
			}

			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error is\n\t%v\nwant\n\t%s", err, want)
			}

			for _, line := range tree(t, filepath.Dir(archive)) {
				if strings.HasSuffix(line, "static") && line != "-rwxr-xr-x work/static" {
					t.Errorf("written where it should not be: %s", line)
				}
			}
		})
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()

	var out bytes.Buffer

	compressor := gzip.NewWriter(&out)
	if _, err := compressor.Write(data); err != nil {
		t.Fatal(err)
	}

	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// TestSparseBomb: a few bytes of archive that stand for many zeros count as what they unpack to.
func TestSparseBomb(t *testing.T) {
	t.Parallel()

	var members []member

	for name, size := range map[string]string{"./README.md": "2000000000", "./static": "500000000"} {
		header := file(name, nil).header
		header.Format = tar.FormatPAX
		// The writer refuses these records under their real names.
		header.PAXRecords = map[string]string{
			"ABC.sparse.major": "0", "ABC.sparse.minor": "1", "ABC.sparse.size": size,
			"ABC.sparse.numblocks": "1", "ABC.sparse.map": size + ",0",
		}
		members = append(members, member{header, nil})
	}

	// What is passed over costs nothing.
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.header.Name, b.header.Name) })

	data := gunzip(t, tgz(t, members))
	data = gzipped(t, bytes.ReplaceAll(data, []byte("ABC.sparse"), []byte("GNU.sparse")))

	_, err := plugins.Collect(t.Context(), &plugins.ArchiveSource{Path: save(t, "cni.tgz", data)}, pinFor(t, "amd64", data), "amd64", selection(t, few...), t.TempDir())
	if err == nil || !strings.HasSuffix(err.Error(), "unpacks to more than 2147483648 bytes") {
		t.Errorf("error is %v", err)
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()

	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if _, err := out.ReadFrom(r); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

// TestArchiveThatIsNoFile also shows that a FIFO without a writer does not block.
func TestArchiveThatIsNoFile(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.tgz")

	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		fifo:                             "archive " + fifo + " is not a regular file",
		dir:                              "archive " + dir + " is not a regular file",
		"/dev/zero":                      "archive /dev/zero is not a regular file",
		filepath.Join(dir, "absent.tgz"): "reading archive: stat " + filepath.Join(dir, "absent.tgz") + ": no such file or directory",
	} {
		_, err := (&plugins.ArchiveSource{Path: name}).Provide(t.Context(), loadPin(t), "amd64", selection(t, few...), t.TempDir())
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}
