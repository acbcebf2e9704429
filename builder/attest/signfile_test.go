package attest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()

	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

func TestSignFile(t *testing.T) {
	t.Parallel()

	signer, trust := keyPair(t)
	stranger, strangersTrust := keyPair(t)
	path := file(t, "content")

	for _, want := range []int{1, 0} { // the second time it is there
		done, err := attest.SignFile(t.Context(), path, signer)
		if err != nil || len(done.Added) != want {
			t.Fatalf("%+v, %v", done, err)
		}
	}

	if _, err := attest.SignFile(t.Context(), path, stranger); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("a stranger takes the place of a signature: %v", err)
	}

	check := func(trust *attest.Trust, want string) {
		t.Helper()

		_, err := attest.VerifyFile(t.Context(), path, attest.Policy{Trust: trust})

		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!attest.IsRefusal(err) || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}

	check(trust, "")
	check(strangersTrust, "does not sign it for "+strangersTrust.Name)

	write(t, path, []byte("contents"))
	check(trust, "it was altered")

	// A signature of what the file no longer is belongs to nobody.
	if done, err := attest.SignFile(t.Context(), path, stranger); err != nil || len(done.Added) != 1 {
		t.Errorf("%+v, %v", done, err)
	}

	check(strangersTrust, "")

	write(t, path+attest.SignatureSuffix, []byte("{}"))
	check(trust, "decoding bundle")

	if err := os.Remove(path + attest.SignatureSuffix); err != nil {
		t.Fatal(err)
	}

	check(trust, "not signed")
}

func TestAttestFile(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	signer, trust := keyPair(t)
	stranger, _ := keyPair(t)

	stated := statements(t, out)

	archive := filepath.Join(out, "talos-amd64.tar")
	policy := buildertest.Policy(t, trust)

	check := func(want string) {
		t.Helper()

		report, err := attest.VerifyFile(t.Context(), archive, policy)

		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want == "" && (report.Subjects[0].Plugins != 2 || !slices.Equal(report.Subjects[0].Attested, []string{attest.Provenance, attest.SPDX})):
			t.Errorf("report: %+v", report)
		case want != "" && (!attest.IsRefusal(err) || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}

	if _, err := attest.SignFile(t.Context(), archive, signer); err != nil {
		t.Fatal(err)
	}

	check("not attested")

	// What strangers say stays, and what is there is not said twice.
	for _, who := range []*attest.Signer{stranger, signer} {
		for _, want := range []int{1, 0} {
			done, err := attest.AttestFile(t.Context(), archive, who, stated)
			if err != nil || len(done.Added) != want {
				t.Fatalf("%+v, %v", done, err)
			}
		}
	}

	lines := read(t, archive+attest.StatementsSuffix)
	if n := strings.Count(string(lines), "\n"); n != 4 {
		t.Errorf("%d lines instead of two by each", n)
	}

	check("")

	// The other architecture's statements, which the key has signed, too.
	other := filepath.Join(out, "talos-arm64.tar")
	if _, err := attest.AttestFile(t.Context(), other, signer, stated); err != nil {
		t.Fatal(err)
	}

	write(t, archive+attest.StatementsSuffix, read(t, other+attest.StatementsSuffix))
	check("is a bundle about")

	// Only the stranger's.
	write(t, archive+attest.StatementsSuffix, []byte(strings.Join(strings.SplitAfter(string(lines), "\n")[:2], "")))
	check("no attestation https://slsa.dev/provenance/v1")

	write(t, archive+attest.StatementsSuffix, []byte(strings.Repeat("{}\n", 101)))
	check("more than 100 lines")

	if _, err := attest.AttestFile(t.Context(), filepath.Join(out, "build.json"), signer, stated); err == nil {
		t.Error("statements about other files were attached")
	}
}

// Nothing that lies beside a file can make a reader wait or take all memory.
func TestHostileCompanions(t *testing.T) {
	t.Parallel()

	_, trust := keyPair(t)
	path := file(t, "content")

	if err := os.Mkdir(path+attest.SignatureSuffix, 0o755); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	if _, err := attest.VerifyFile(ctx, path, attest.Policy{Trust: trust}); err == nil {
		t.Error("a directory is no signature")
	}

	if err := os.Remove(path + attest.SignatureSuffix); err != nil {
		t.Fatal(err)
	}

	huge, err := os.Create(path + attest.SignatureSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer huge.Close()

	if err := huge.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}

	if _, err := attest.VerifyFile(ctx, path, attest.Policy{Trust: trust}); !attest.IsRefusal(err) {
		t.Errorf("a signature of a terabyte: %v", err)
	}
}
