package airgap_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/attest"
)

func TestVerify(t *testing.T) {
	t.Parallel()

	bundle, policy := newSigned(t)

	b, err := open(t, bundle)
	if err != nil {
		t.Fatal(err)
	}

	reports, err := b.Verify(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, report := range reports {
		names = append(names, report.Name)
	}

	if want := []string{"ghcr.io/cnibake/install-cni-plugins:v1.9.1-1", "files/SHA256SUMS"}; !slices.Equal(names, want) {
		t.Errorf("verified %v, want %v", names, want)
	}

	if plugins := reports[0].Subjects[1].Plugins; plugins != 14 {
		t.Errorf("%d plugins were compared", plugins)
	}

	if images := b.Images(); images[0].Attachments < 3*3 {
		t.Errorf("an index and two images have %d attachments", images[0].Attachments)
	}
}

// Whoever has no key can make sums that are right, but no signature.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(t *testing.T) ([]byte, attest.Policy)
		want   string
	}{
		"another key": {func(t *testing.T) ([]byte, attest.Policy) {
			bundle, _ := newSigned(t)
			_, policy := newKey(t)

			return bundle, policy
		}, "ghcr.io/cnibake/install-cni-plugins:v1.9.1-1: index"},
		"not signed": {func(t *testing.T) ([]byte, attest.Policy) {
			_, policy := newKey(t)

			return newBundle(t), policy
		}, "it is not signed"},
		"sums not signed": {func(t *testing.T) ([]byte, attest.Policy) {
			signer, policy := newKey(t)
			dir := newDist(t)
			signLayouts(t, dir, signer)

			return create(t, dir), policy
		}, "files/SHA256SUMS: it is not signed"},
		"file and its sums altered": {func(t *testing.T) ([]byte, attest.Policy) {
			bundle, policy := newSigned(t)
			entries := read(t, bytes.Clone(bundle))
			file := &entries[index(t, entries, func(name string) bool { return name == "files/init-container-amd64.spdx.json" })]
			sums := &entries[index(t, entries, func(name string) bool { return name == "files/SHA256SUMS" })]

			before := sum(file.data)
			file.data = append(file.data, '\n')
			sums.data = bytes.ReplaceAll(sums.data, []byte(before), []byte(sum(file.data)))

			return sealed(t, entries), policy
		}, "files/SHA256SUMS: it has sha256:"},
		"another build, signed by another": {func(t *testing.T) ([]byte, attest.Policy) {
			_, policy := newSigned(t)
			signer, _ := newKey(t)
			dir := newDist(t)
			sign(t, dir, signer)

			return create(t, dir), policy
		}, "is not signed by"},
		"images not signed, sums signed": {func(t *testing.T) ([]byte, attest.Policy) {
			signer, policy := newKey(t)
			dir := newDist(t)

			if _, err := attest.SignFile(t.Context(), filepath.Join(dir, builder.SumsName), signer); err != nil {
				t.Fatal(err)
			}

			return create(t, dir), policy
		}, "v1.9.1-1: index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			bundle, policy := test.change(t)

			b, err := open(t, bundle)
			if err == nil {
				_, err = b.Verify(t.Context(), policy)
				if !attest.IsRefusal(err) {
					t.Errorf("not a refusal: %v", err)
				}
			}

			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), os.TempDir()) && b != nil {
				t.Errorf("want %q: %v", test.want, err)
			}
		})
	}
}

// No flipped byte of a signed bundle passes, and the message names the member: neither when the byte alone
// was flipped, nor when somebody adapted the sums to it.
func TestVerifyNamesEveryFlippedByte(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("verifies a bundle for every member")
	}

	whole, policy := newSigned(t)
	random := rand.New(rand.NewPCG(3, 4))

	for at := range read(t, whole) {
		entries := read(t, bytes.Clone(whole))
		flipped := &entries[at]
		name := flipped.name
		flipped.data[random.IntN(len(flipped.data))] ^= byte(1 + random.IntN(255))

		bundle := pack(t, entries)
		// Some bytes of a file that holds a signature mean nothing, such as a space.
		if at%2 == 0 && name != "SHA256SUMS" && !strings.HasSuffix(name, attest.SignatureSuffix) {
			bundle = sealed(t, entries)
		}

		b, err := open(t, bundle)
		if err == nil {
			_, err = b.Verify(t.Context(), policy)
		}

		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a byte of %s was flipped: %v", name, err)
		}
	}
}

// Signatures that were taken out of a layout after the sums were made are missed.
func TestStrippedSignatures(t *testing.T) {
	t.Parallel()

	signer, _ := newKey(t)
	dir := newDist(t)

	index := filepath.Join(dir, "init-container/index.json")

	before, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}

	sign(t, dir, signer)

	if err := os.WriteFile(index, before, 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := airgap.Create(t.Context(), io.Discard, dir); err == nil || !strings.Contains(err.Error(), " is missing (by files/SHA256SUMS)") {
		t.Errorf("bundled all the same: %v", err)
	}
}

// Individually signed files are verified, too.
func TestVerifyLooksAtEverySignedFile(t *testing.T) {
	t.Parallel()

	signer, policy := newKey(t)
	dir := newDist(t)
	signLayouts(t, dir, signer)

	const file = "init-container-amd64.spdx.json"

	if _, err := attest.SignFile(t.Context(), filepath.Join(dir, file), signer); err != nil {
		t.Fatal(err)
	}

	dist, err := builder.OpenDist(dir)
	if err != nil {
		t.Fatal(err)
	}

	if err := dist.UpdateSums(t.Context(), file); err != nil {
		t.Fatal(err)
	}

	if _, err := attest.SignFile(t.Context(), filepath.Join(dir, builder.SumsName), signer); err != nil {
		t.Fatal(err)
	}

	verify := func(bundle []byte, policy attest.Policy) ([]*attest.Report, error) {
		b, err := open(t, bundle)
		if err != nil {
			t.Fatal(err)
		}

		return b.Verify(t.Context(), policy)
	}

	reports, err := verify(create(t, dir), policy)
	if err != nil || !slices.ContainsFunc(reports, func(r *attest.Report) bool { return r.Name == "files/"+file }) {
		t.Errorf("verified %v: %v", reports, err)
	}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)

	return hex.EncodeToString(s[:])
}
