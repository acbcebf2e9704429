package attest_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
)

// With a certificate: images and files, with and without a transparency log, verified offline.
func TestKeyless(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)

	stated := statements(t, out)

	me := attest.Identity{Subject: "me@example.com", Issuer: buildertest.OIDCIssuer}
	now, lastWeek := time.Now().Add(-time.Minute), time.Now().Add(-7*24*time.Hour)

	for title, test := range map[string]struct {
		issued   time.Time
		logged   bool // the signatures are
		root     bool // they have to be
		identity attest.Identity
		other    bool   // another authority is trusted
		want     string // empty: it verifies
	}{
		"certificate in force":        {issued: now, identity: me},
		"by patterns":                 {issued: now, identity: attest.Identity{SubjectRegexp: `@example\.com$`, IssuerRegexp: `^https://`}},
		"logged":                      {issued: now, logged: true, root: true, identity: me},
		"logged, certificate expired": {issued: lastWeek, logged: true, root: true, identity: me},
		"certificate expired":         {issued: lastWeek, identity: me, want: "not signed by identity me@example.com"},
		"not logged":                  {issued: now, root: true, identity: me, want: "not signed by"},
		"somebody else":               {issued: now, identity: attest.Identity{Subject: "you@example.com", Issuer: buildertest.OIDCIssuer}, want: "not signed by identity you@"},
		"of another issuer":           {issued: now, identity: attest.Identity{Subject: me.Subject, Issuer: "https://other"}, want: "not signed by"},
		"of another authority":        {issued: now, other: true, identity: me, want: "not signed by"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			a := buildertest.NewAuthority(t, test.issued)

			signer, err := attest.Keyless(t.Context(), a.URL, buildertest.Token("me@example.com"))
			if err != nil {
				t.Fatal(err)
			}

			if test.logged {
				if err := signer.SetLog(a.URL); err != nil {
					t.Fatal(err)
				}
			}

			layout := rebuild(t, open(t, filepath.Join(out, "talos")), nil, nil)
			sign(t, layout, signer, layout.restated(t, stated))

			path := file(t, "content")
			if _, err := attest.SignFile(t.Context(), path, signer); err != nil {
				t.Fatal(err)
			}

			believed := a
			if test.other {
				believed = buildertest.NewAuthority(t, test.issued)
			}

			trust, err := attest.TrustIdentity(test.identity, believed.TrustedRoot(test.root))
			if err != nil {
				t.Fatal(err)
			}

			policy := buildertest.Policy(t, trust)
			if test.want != "" {
				refused(t, layout, policy, test.want)

				if _, err := attest.VerifyFile(t.Context(), path, policy); !attest.IsRefusal(err) {
					t.Errorf("the file: %v", err)
				}

				return
			}

			report, err := attest.Verify(t.Context(), layout, policy)
			if err != nil {
				t.Fatal(err)
			}

			if !strings.HasPrefix(report.Signer, "identity ") || len(report.Warnings) > 0 {
				t.Errorf("report: %+v", report)
			}

			if _, err := attest.VerifyFile(t.Context(), path, policy); err != nil {
				t.Error(err)
			}

			// Who believes a key does not believe the key in a certificate.
			_, policy.Trust = keyPair(t)
			refused(t, layout, policy, "not signed by key sha256:")

			if _, err := attest.VerifyFile(t.Context(), path, policy); !attest.IsRefusal(err) {
				t.Errorf("the file, by key: %v", err)
			}
		})
	}
}

func TestIdentityMustBeNamed(t *testing.T) {
	t.Parallel()

	trusted := buildertest.NewAuthority(t, time.Now()).TrustedRoot(false)

	for _, identity := range []attest.Identity{
		{}, {Subject: "me"}, {Issuer: "x"}, {Subject: "me", SubjectRegexp: ".", Issuer: "x"}, {Subject: "me", Issuer: "x", IssuerRegexp: "."},
		{SubjectRegexp: "[", Issuer: "x"}, {Subject: "me", IssuerRegexp: "("},
	} {
		if _, err := attest.TrustIdentity(identity, trusted); err == nil {
			t.Errorf("%+v is taken", identity)
		}
	}

	for _, text := range []string{"", "{}", `{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`} {
		if _, err := attest.TrustIdentity(attest.Identity{Subject: "me", Issuer: "x"}, []byte(text)); err == nil {
			t.Errorf("trusted root %q is taken", text)
		}
	}
}
