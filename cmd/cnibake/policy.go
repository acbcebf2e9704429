package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// policyFlags say whose signatures count and what else has to hold.
type policyFlags struct {
	key           string
	identity      attest.Identity
	trustedRoot   string
	pin           string
	signatureOnly bool
}

func (f *policyFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "believe signatures of the public key in this PEM `FILE`; nothing is asked of the network then")
	flags.StringVar(&f.identity.Subject, "certificate-identity", "", "believe signatures with a certificate for this `IDENTITY`, an address or URI")
	flags.StringVar(&f.identity.SubjectRegexp, "certificate-identity-regexp", "", "the same as a regular `EXPRESSION`")
	flags.StringVar(&f.identity.Issuer, "certificate-oidc-issuer", "", "the issuer that vouched for the identity, a `URL`")
	flags.StringVar(&f.identity.IssuerRegexp, "certificate-oidc-issuer-regexp", "", "the same as a regular `EXPRESSION`")
	flags.StringVar(&f.trustedRoot, "trusted-root", "", "the trusted root `FILE` (JSON) of the certificate authority; without it, sigstore's public one is fetched")
	flags.StringVar(&f.pin, "pin", "", "the upstream release that has to be in it: a built-in `VERSION` or a pin file (default: any built-in one)")
	flags.BoolVar(&f.signatureOnly, "signature-only", false, "ask for signatures alone, not for attestations, and do not look into images")
	_ = cmd.RegisterFlagCompletionFunc("pin", cobra.FixedCompletions(profiles.Pins(), cobra.ShellCompDirectiveDefault))
}

// policy is what the flags demand.
func (a *app) policy(f policyFlags, command string) (attest.Policy, error) {
	policy := attest.Policy{Inspect: builder.ImageContent, InspectFile: builder.FileContent, SignatureOnly: f.signatureOnly}

	var err error
	if policy.Trust, err = a.trust(f, command); err != nil {
		return attest.Policy{}, err
	}

	pins := profiles.Pins()
	if f.pin != "" {
		pins = []string{f.pin}
	}

	for _, version := range pins {
		pin, err := profiles.LoadPin(version)
		if err != nil {
			return attest.Policy{}, err
		}

		policy.Pins = append(policy.Pins, payload.Pin{Version: pin.Version, Module: pin.Module.Path, Sum: pin.Module.Sum})
	}

	return policy, nil
}

func (a *app) trust(f policyFlags, command string) (*attest.Trust, error) {
	switch {
	case f.key != "" && (f.identity != attest.Identity{} || f.trustedRoot != ""):
		return nil, usageError{errors.New("--key goes with no certificate"), command}
	case f.key != "":
		text, err := readSmall(f.key, maxKey)
		if err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}

		trust, err := attest.TrustKey(text)
		if err != nil {
			return nil, fmt.Errorf("reading the key %s: %w", f.key, err)
		}

		return trust, nil
	case f.identity == attest.Identity{}:
		return nil, usageError{errors.New("say whose signatures count: --key, or --certificate-identity with --certificate-oidc-issuer"), command}
	}

	root, err := a.trustedRoot(f.trustedRoot)
	if err != nil {
		return nil, err
	}

	return attest.TrustIdentity(f.identity, root)
}

func (a *app) trustedRoot(file string) ([]byte, error) {
	if file != "" {
		return readSmall(file, maxKey)
	}

	cached, err := a.cache()
	if err != nil {
		return nil, err
	}

	return attest.PublicTrustedRoot(filepath.Join(cached.Dir(), "sigstore"))
}
