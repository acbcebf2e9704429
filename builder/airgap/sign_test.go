package airgap_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/oci"
)

// newKey returns a signer and the policy that believes it.
func newKey(t *testing.T) (*attest.Signer, attest.Policy) {
	t.Helper()

	signer, trust := buildertest.Signer(t, buildertest.NewKey(t))

	return signer, buildertest.Policy(t, trust)
}

// sign signs and attests every layout of a build, and the sums.
func sign(t *testing.T, dir string, signer *attest.Signer) {
	t.Helper()

	signLayouts(t, dir, signer)

	if _, err := attest.SignFile(t.Context(), filepath.Join(dir, builder.SumsName), signer); err != nil {
		t.Fatal(err)
	}
}

func signLayouts(t *testing.T, dir string, signer *attest.Signer) {
	t.Helper()

	dist, err := builder.OpenDist(dir)
	if err != nil {
		t.Fatal(err)
	}

	statements, err := dist.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range dist.Layouts() {
		layout, err := oci.OpenLayout(dist.Path(name))
		if err != nil {
			t.Fatal(err)
		}

		if _, err := attest.Sign(t.Context(), layout, signer, ""); err != nil {
			t.Fatal(err)
		}

		if _, err := attest.Attest(t.Context(), layout, signer, statements); err != nil {
			t.Fatal(err)
		}
	}

	if err := dist.UpdateSums(t.Context(), dist.Layouts()...); err != nil {
		t.Fatal(err)
	}
}

var signed struct {
	once   sync.Once
	dir    string
	policy attest.Policy
	bundle []byte
}

// newSigned returns a signed bundle, made once for all tests, and the policy that believes it.
func newSigned(t *testing.T) ([]byte, attest.Policy) {
	t.Helper()

	signed.once.Do(func() {
		signer, policy := newKey(t)
		dir := newDist(t)
		sign(t, dir, signer)
		signed.policy, signed.bundle = policy, create(t, dir)
	})

	if signed.bundle == nil {
		t.Fatal("there is no signed bundle")
	}

	return signed.bundle, signed.policy
}
