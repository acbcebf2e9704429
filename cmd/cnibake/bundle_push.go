package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/airgap"
)

func (a *app) bundlePushCommand() *cobra.Command {
	var flags registryFlags

	cmd := &cobra.Command{
		Use:   "push FILE REGISTRY[/PREFIX]",
		Short: "Copy the images of a bundle into a registry",
		Long: `Push copies every image of a bundle, with its signatures and attestations, into a registry. Each keeps
its name and its digest; REGISTRY/PREFIX takes the place of the registry it was made for. It prints where
each image is now, with digest, one a line.

The whole bundle is looked at first: when something is missing or altered, that is named and nothing is
pushed. Who signed it is for cnibake bundle verify to say. What the registry has already is not sent again, so a
push that was cut short is finished by doing it once more.`,
		Example: `  cnibake bundle push cnibake.tar registry.example
  cnibake bundle push cnibake.tar harbor.example/mirror --ca-file ca.crt > images`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Said before hundreds of megabytes are read.
			if _, err := airgap.Target("example.com/image:tag", args[1]); err != nil {
				return usageError{err, cmd.CommandPath()}
			}

			return a.bundlePush(cmd.Context(), args[0], args[1], flags)
		},
	}

	flags.addFlags(cmd)
	flags.addJobsFlag(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) bundlePush(ctx context.Context, file, prefix string, flags registryFlags) (err error) {
	client, err := a.registryClient(flags)
	if err != nil {
		return err
	}

	bundle, err := openBundle(ctx, file, airgap.WithoutFiles())
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, bundle.Close()) }()

	pushed, err := bundle.Push(ctx, client, prefix, a.copyOptions()...)
	if err != nil {
		return err
	}

	if a.output == "json" {
		return writeJSON(a.stdout, pushed)
	}

	for _, p := range pushed {
		if _, err := fmt.Fprintln(a.stdout, p.Reference); err != nil {
			return err
		}
	}

	return nil
}

// openBundle unpacks a bundle where temporary files go. Damage is an answer, not a failure.
func openBundle(ctx context.Context, file string, options ...airgap.Option) (*airgap.Bundle, error) {
	bundle, err := airgap.Open(ctx, file, os.TempDir(), options...)

	if damage := (airgap.DamageError{}); errors.As(err, &damage) {
		return nil, answerNo{err}
	}

	return bundle, err
}
