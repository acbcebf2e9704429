package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/airgap"
)

func (a *app) bundleVerifyCommand() *cobra.Command {
	var (
		policy        policyFlags
		checksumsOnly bool
	)

	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a bundle: every byte, and who signed it",
		Long: `Verify holds a bundle to its sums, and then everything in it to what was signed, as cnibake verify does:
each image with its signature, attestations and content, the sums of the build, and every file with a
signature of its own. What is missing, altered or not expected is named. With a key it needs no network.

A bundle that is not signed shows only that it arrived as it was written, and by --checksums-only alone.
Verify exits 1 when something is wrong with the bundle, and 2 when it could not find out.`,
		Example: `  cnibake bundle verify cnibake.tar --key cosign.pub
  cnibake bundle verify cnibake.tar --checksums-only`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !checksumsOnly {
				return a.bundleVerify(cmd.Context(), args[0], policy)
			}

			if policy != (policyFlags{}) {
				return usageError{errors.New("--checksums-only asks for no signature: leave the other flags out"), cmd.CommandPath()}
			}

			return a.bundleCheck(cmd.Context(), args[0])
		},
	}

	policy.addFlags(cmd)
	cmd.Flags().BoolVar(&checksumsOnly, "checksums-only", false, "look at the sums alone, and not at who signed them")
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) bundleVerify(ctx context.Context, file string, f policyFlags) (err error) {
	policy, err := a.policy(f, "cnibake bundle verify")
	if err != nil {
		return err
	}

	bundle, err := openBundle(ctx, file)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, bundle.Close()) }()

	reports, err := bundle.Verify(ctx, policy)
	if err != nil {
		return refusal(fmt.Errorf("bundle %s: %w", file, err))
	}

	return a.showReports(reports)
}

// bundleCheck says what is in a bundle that is whole.
func (a *app) bundleCheck(ctx context.Context, file string) (err error) {
	bundle, err := openBundle(ctx, file, airgap.WithoutFiles())
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, bundle.Close()) }()

	a.log().Warn(file + " is as it was written; by whom was not asked")

	if a.output == "json" {
		return writeJSON(a.stdout, struct {
			Images []airgap.Image `json:"images"`
		}{bundle.Images()})
	}

	return printImages(a.stdout, bundle.Images())
}
