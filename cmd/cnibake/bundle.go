package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/airgap"
)

func (a *app) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Carry a build across an air gap in one file",
		Long: `A bundle is one file with everything that a build made: the images with their signatures and
attestations, and the tarballs, SBOMs and sums. It is a tar of an OCI image layout, so that skopeo, podman
and ctr images import read it, too. images.txt in it lists every image with digests and sizes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(a.bundleCreateCommand(), a.bundleVerifyCommand(), a.bundlePushCommand())

	return cmd
}

func (a *app) bundleCreateCommand() *cobra.Command {
	var file string

	cmd := &cobra.Command{
		Use:   "create -f FILE DIST",
		Short: "Write the bundle of a build",
		Long: `Create writes what cnibake build left in DIST, and what cnibake sign and cnibake attest added to it,
into one file. Sign first. Every file of the build has to be there and unaltered; those that are not are
named. What else lies in DIST stays out. Two bundles of one build are the same, bit for bit.`,
		Example: `  cnibake bundle create -f cnibake.tar dist
  cnibake bundle create -f - dist | zstd > cnibake.tar.zst`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usageError{errors.New("give the file to write with -f; - is standard output"), cmd.CommandPath()}
			}

			return a.bundleCreate(cmd.Context(), file, args[0])
		},
	}

	cmd.Flags().StringVarP(&file, "filename", "f", "", "the bundle to write; - is standard output, and the list of images then goes to standard error")
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) bundleCreate(ctx context.Context, file, dir string) error {
	var (
		created *airgap.Created
		err     error
		results = a.stdout
	)

	write := func(w io.Writer) error {
		created, err = airgap.Create(ctx, w, dir)

		return err
	}

	if file == "-" {
		results = a.stderr
		err = write(a.stdout)
	} else {
		err = createWhole(file, write)
	}

	if err != nil {
		return err
	}

	if len(created.LeftOut) > 0 {
		a.log().Warn(fmt.Sprintf("not of the build, and left out: %s", strings.Join(created.LeftOut, ", ")))
	}

	if a.output == "json" {
		return writeJSON(results, created)
	}

	if file == "-" && a.quiet {
		return nil
	}

	if err := printImages(results, created.Images); err != nil {
		return err
	}

	_, err = fmt.Fprintf(results, "\n%s, %s: %s\n", plural(len(created.Images), "image"), plural(created.Files, "file"), size(created.Size))

	return err
}

func printImages(w io.Writer, images []airgap.Image) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tPLATFORM\tTO PULL\tUNPACKED\tDIGEST")

	for _, image := range images {
		for _, p := range image.Platforms {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", image.Name, p.Platform, size(p.Compressed), size(p.Unpacked), image.Digest)
		}
	}

	return table.Flush()
}
