package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder"
)

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect ARTIFACT|DIR",
		Short: "List the plugins in an artifact or a directory",
		Long: `Inspect looks into an OCI image layout, an OCI archive, an extension tar, a tarball or a
directory and lists each plugin as its own bytes show it: name, version, source, digest,
architecture, size. Where a manifest lies beside the plugins, each is compared with it and is ok,
altered, missing or of the wrong architecture; without one it is unverified. Plugins that are linked
into one program have the same digest and size. Inspect exits 1 when a plugin is not what the
manifest says, and when there are no plugins.`,
		Example: `  cnibake inspect dist/talos
  cnibake inspect dist/generic-linux-amd64.tar.gz -o json
  cnibake inspect /opt/cni/bin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.inspect(cmd.Context(), args[0]) },
	}

	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) inspect(ctx context.Context, artifact string) error {
	if err := checkOne(artifact); err != nil {
		return err
	}

	all, err := builder.Inspect(ctx, artifact)
	if err != nil {
		return err
	}

	if a.output == "json" {
		err = writeJSON(a.stdout, all)
	} else {
		err = printContents(a.stdout, all)
	}

	if err != nil {
		return err
	}

	for _, contents := range all {
		if len(contents.Plugins) == 0 {
			return answerNo{fmt.Errorf("%s holds no CNI reference plugins", artifact)}
		}

		if !contents.Good() {
			return answerNo{errors.New("not every plugin is what the manifest says")}
		}
	}

	return nil
}

func printContents(w io.Writer, all []builder.Contents) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLUGIN\tVERSION\tSOURCE\tARCH\tSIZE\tDIGEST\tSTATE")

	for _, contents := range all {
		for _, p := range contents.Plugins {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Version, p.Source, p.Arch, size(p.Size), p.Digest, p.State)
		}
	}

	return table.Flush()
}
