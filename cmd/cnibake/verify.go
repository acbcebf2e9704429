package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

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

func (a *app) verifyCommand() *cobra.Command {
	var (
		policy   policyFlags
		registry registryFlags
	)

	cmd := &cobra.Command{
		Use:   "verify DIST|LAYOUT|FILE|REGISTRY/REPO:TAG",
		Short: "Verify signatures, attestations and content",
		Long: `Verify holds an image with all its architectures, a file, or everything that a build wrote to what was
signed: the signature of each, its attestations (provenance and SBOM, about just this digest), and then
the content: every plugin has the digest that was attested and there is no other program, the architecture
is the one that the index names, and the plugins are from an upstream release that this program knows, or
from the one of --pin.

With a key nothing is asked of the network, except for the image itself. Verify exits 1 when
something is not signed, not attested or not what was signed, and says what; it exits 2 when it could not
find out. Images that others built have none of these attestations: --signature-only.`,
		Example: `  cnibake verify --key cosign.pub dist
  cnibake verify --key cosign.pub registry.example/cni-plugins:v1.9.1-1
  cnibake verify --certificate-identity me@example.com --certificate-oidc-issuer https://accounts.example --trusted-root root.json dist/talos`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.verify(cmd.Context(), args[0], policy, registry)
		},
	}

	policy.addFlags(cmd)
	registry.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) verify(ctx context.Context, argument string, f policyFlags, registry registryFlags) error {
	policy, err := a.policy(f, "cnibake verify")
	if err != nil {
		return err
	}

	target, err := a.openSignable(ctx, argument, registry)
	if err != nil {
		return refusal(err)
	}

	reports, err := target.Verify(ctx, policy)
	if err != nil {
		return refusal(err)
	}

	return a.showReports(reports)
}

func (a *app) showReports(reports []*attest.Report) error {
	for _, report := range reports {
		for _, warning := range report.Warnings {
			a.log().Warn(warning)
		}
	}

	if a.output == "json" {
		return writeJSON(a.stdout, reports)
	}

	return printReports(a.stdout, reports)
}

func printReports(w io.Writer, reports []*attest.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPLATFORM\tDIGEST\tSIGNED\tATTESTED\tPLUGINS")

	for _, report := range reports {
		for _, s := range report.Subjects {
			plugins := ""
			if s.Plugins > 0 {
				plugins = fmt.Sprintf("%d of pin %s", s.Plugins, report.Pin.Version)
			}

			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", report.Name, s.Platform, s.Digest, join(s.Signed), join(s.Attested), plugins)
		}
	}

	if err := table.Flush(); err != nil {
		return err
	}

	_, err := fmt.Fprintf(w, "\nall of it by %s\n", reports[0].Signer)

	return err
}

func join[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}

	return strings.Join(texts, ", ")
}
