package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/attest"
)

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
