package airgap_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/airgap"
)

// Every kind of damage is refused, and the message names the member.
func TestOpenNamesTheDamage(t *testing.T) {
	t.Parallel()

	blob := func(name string) bool { return strings.HasPrefix(name, "blobs/") }
	is := func(want string) func(string) bool { return func(name string) bool { return name == want } }

	for name, test := range map[string]struct {
		// change returns the damaged bundle and what the message has to contain.
		change func(t *testing.T, entries []entry) ([]byte, string)
	}{
		"missing blob": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, blob)

			return pack(t, slices.Delete(slices.Clone(entries), i, i+1)), entries[i].name + " is missing"
		}},
		"missing blob, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, blob)

			return sealed(t, slices.Delete(slices.Clone(entries), i, i+1)), strings.TrimPrefix(entries[i].name, "blobs/sha256/")
		}},
		"altered blob": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, blob)
			entries[i].data[0] ^= 1

			return pack(t, entries), entries[i].name + " was altered"
		}},
		"altered blob, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, blob)
			entries[i].data[0] ^= 1

			return sealed(t, slices.Clone(entries)), entries[i].name + " was altered"
		}},
		"altered file, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, is("files/init-container-amd64.tar"))
			entries[i].data[0] ^= 1

			return sealed(t, slices.Clone(entries)), entries[i].name + " was altered (by files/SHA256SUMS)"
		}},
		"missing file, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, is("files/init-container-amd64.tar"))

			return sealed(t, slices.Delete(entries, i, i+1)), "files/init-container-amd64.tar is missing"
		}},
		"extra file, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			return sealed(t, append(entries, entry{"files/evil", []byte("x"), tar.TypeReg})), "files/evil is not expected"
		}},
		"extra signature, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			const name = "files/init-container-amd64.tar.sigstore.json"

			return sealed(t, append(entries, entry{name, []byte("{}"), tar.TypeReg})), name + " is not expected"
		}},
		"extra blob, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			const x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

			return sealed(t, append(entries, entry{"blobs/sha256/" + x, []byte("x"), tar.TypeReg})), "blobs/sha256/" + x + " is not expected"
		}},
		"extra member": {func(t *testing.T, entries []entry) ([]byte, string) {
			return pack(t, append(entries, entry{"zzz", []byte("x"), tar.TypeReg})), `"zzz" is not expected`
		}},
		"path that leaves": {func(t *testing.T, entries []entry) ([]byte, string) {
			return sealed(t, append(entries, entry{"files/../../evil", []byte("x"), tar.TypeReg})), "not expected"
		}},
		"link": {func(t *testing.T, entries []entry) ([]byte, string) {
			return pack(t, append(entries, entry{"files/zzz", nil, tar.TypeSymlink})), `"files/zzz" is not a regular file`
		}},
		"twice": {func(t *testing.T, entries []entry) ([]byte, string) {
			return pack(t, append(entries, entries[len(entries)-1])), entries[len(entries)-1].name + " is there twice"
		}},
		"reordered": {func(t *testing.T, entries []entry) ([]byte, string) {
			entries[2], entries[3] = entries[3], entries[2]

			return pack(t, entries), entries[3].name + " is out of order"
		}},
		"index names another image, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, is("index.json"))
			entries[i].data = bytes.ReplaceAll(entries[i].data, []byte("/cnibake/"), []byte("/evilbake/"))

			return sealed(t, entries), "nothing in it is named ghcr.io/cnibake/"
		}},
		"sizes in images.txt, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, is("images.txt"))
			entries[i].data = append(entries[i].data, "more\n"...)

			return sealed(t, entries), "images.txt was altered"
		}},
		"no report, sums adapted": {func(t *testing.T, entries []entry) ([]byte, string) {
			i := index(t, entries, is("files/build.json"))

			return sealed(t, slices.Delete(entries, i, i+1)), "files/build.json is missing"
		}},
		"no sums": {func(t *testing.T, entries []entry) ([]byte, string) {
			return pack(t, entries[1:]), "SHA256SUMS is missing"
		}},
		"truncated in a member": {func(t *testing.T, entries []entry) ([]byte, string) {
			whole := pack(t, entries)

			return whole[:len(whole)/2], "unexpected EOF"
		}},
		"truncated between members": {func(t *testing.T, entries []entry) ([]byte, string) {
			whole := pack(t, entries[:len(entries)-1])

			return whole[:len(whole)-1024], "the bytes that follow " + entries[len(entries)-2].name + " were altered or cut short"
		}},
		"something follows": {func(t *testing.T, entries []entry) ([]byte, string) {
			return append(pack(t, entries), make([]byte, 512)...), ": bytes follow the end"
		}},
		"time in a header": {func(t *testing.T, entries []entry) ([]byte, string) {
			return retimed(t, entries, 3), "the header of " + entries[3].name + ", or what is between it and "
		}},
		"empty file": {func(*testing.T, []entry) ([]byte, string) { return nil, "cut short" }},
		"not a tar":  {func(*testing.T, []entry) ([]byte, string) { return bytes.Repeat([]byte("x"), 2000), "tar" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			bundle, want := test.change(t, read(t, bytes.Clone(newBundle(t))))

			_, err := open(t, bundle)

			var damage airgap.DamageError
			if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &damage) {
				t.Errorf("want damage with %q: %v", want, err)
			}
		})
	}
}

// No byte is without a sum, be it in a member, in a header or between them.
func TestOpenRefusesEveryFlippedByte(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("reads a bundle many times")
	}

	const flips = 60

	whole := newBundle(t)
	entries := read(t, whole)
	random := rand.New(rand.NewPCG(1, 2))

	for i := range flips {
		damaged := bytes.Clone(whole)

		// Most bytes are in a few large blobs; half of the flips go into a member chosen first.
		at := random.IntN(len(damaged))
		if i%2 == 0 {
			e := entries[random.IntN(len(entries))]
			at = bytes.Index(damaged, e.data[:min(len(e.data), 4096)]) + random.IntN(len(e.data))
		}

		damaged[at] ^= byte(1 + random.IntN(255))

		if _, err := open(t, damaged); err == nil {
			t.Errorf("the byte at %d was flipped, and nothing said", at)
		}
	}
}

// Nothing is left of a bundle that was refused, or closed.
func TestOpenLeavesNothing(t *testing.T) {
	t.Parallel()

	work := t.TempDir()
	file := filepath.Join(t.TempDir(), "bundle.tar")

	for _, bundle := range [][]byte{newBundle(t), newBundle(t)[:100_000]} {
		if err := os.WriteFile(file, bundle, 0o644); err != nil {
			t.Fatal(err)
		}

		if b, err := airgap.Open(t.Context(), file, work); err == nil {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}

		if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
			t.Errorf("left in the work directory: %v %v", left, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(sealed(f, []entry{
		{"index.json", []byte(`{"schemaVersion":2,"manifests":[]}`), tar.TypeReg},
		{"images.txt", nil, tar.TypeReg},
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), tar.TypeReg},
		{"files/build.json", []byte(`{"created":"1970-01-01T00:00:00Z","profiles":[{"image":"a/b","artifacts":[{"kind":"oci-layout"}]}]}`), tar.TypeReg},
		{"files/SHA256SUMS", []byte(strings.Repeat("0", 64) + "  build.json\n"), tar.TypeReg},
	}))

	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "bundle.tar")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}

		if b, err := airgap.Open(t.Context(), file, t.TempDir()); err == nil {
			b.Close()
		}
	})
}
