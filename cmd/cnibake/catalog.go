package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/airgap"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension/catalog"
)

type catalogOptions struct {
	out, into string
	talos     []string
	registry  registryFlags
}

func (a *app) catalogCommand() *cobra.Command {
	var o catalogOptions

	cmd := &cobra.Command{
		Use:   "catalog --talos RELEASE [--into LAYOUT] EXTENSION...",
		Short: "Write the catalogue by which Image Factory knows extensions",
		Long: `Catalog writes the extension catalogue of a Talos release, an image that Image Factory looks for at
siderolabs/extensions:RELEASE in its registry. There is one OCI layout for each --talos, below --out.

An EXTENSION is a layout that cnibake build wrote, which has the name that build.json beside it says;
NAME:TAG=LAYOUT, with another name; or REGISTRY/REPO:TAG, with or without @DIGEST, which is read from the
registry. What Factory asks its own registry for is the name without the registry. An extension that is
not for a release is left out there, and said so.

With --into the entries are added to those of an existing catalogue, of which every byte stays; that layout
itself is not changed. The result is an image of its own: sign it with cnibake sign, publish it with
cnibake push. The signatures of the extensions it lists are theirs, and stay good.`,
		Example: `  cnibake catalog --talos v1.13.9 --out catalog dist/talos dist/talos-readonly
  cnibake catalog --talos v1.13.9 --into official --out catalog registry.example/cnibake/cni-plugins:v1.9.1-1
  cnibake push catalog/v1.13.9 registry.example/siderolabs/extensions:v1.13.9`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(o.talos) == 0:
				return usageError{errors.New("give the Talos release with --talos"), cmd.CommandPath()}
			case len(o.talos) > 1 && o.into != "":
				return usageError{errors.New("--into is the catalogue of one release: give one --talos"), cmd.CommandPath()}
			}

			for _, talos := range o.talos {
				if err := catalog.CheckRelease(talos); err != nil {
					return usageError{err, cmd.CommandPath()}
				}
			}

			return a.catalog(cmd.Context(), args, o)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "catalog", "directory to write to, a layout for each release below it")
	flags.StringVar(&o.into, "into", "", "layout of an existing catalogue to add to")
	flags.StringSliceVar(&o.talos, "talos", nil, "Talos release, such as v1.13.9; can be repeated")
	o.registry.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

// writtenCatalog is what catalog reports.
type writtenCatalog struct {
	Talos   string          `json:"talos"`
	Layout  string          `json:"layout"`
	Entries []catalog.Entry `json:"entries"`
}

func (a *app) catalog(ctx context.Context, extensions []string, o catalogOptions) error {
	created, err := a.sourceDate()
	if err != nil {
		return err
	}

	cached, err := a.cache()
	if err != nil {
		return err
	}

	packer := oci.NewPacker(builder.FileCache{Cache: cached}, 1)

	described := make([]*catalog.Extension, len(extensions))
	for i, argument := range extensions {
		if described[i], err = a.describeExtension(ctx, argument, o.registry); err != nil {
			return err
		}
	}

	written := make([]writtenCatalog, 0, len(o.talos))

	for _, talos := range o.talos {
		catalogue, err := a.fillCatalog(ctx, talos, o.into, described)
		if err != nil {
			return err
		}

		entries, err := catalogue.Entries()
		if err != nil {
			return err
		}

		dir := filepath.Join(o.out, talos)

		err = replaceLayout(dir, func(beside string) error {
			return catalogue.Write(ctx, packer, beside, talos, created)
		})
		if err != nil {
			return fmt.Errorf("writing catalogue: %w", err)
		}

		written = append(written, writtenCatalog{talos, dir, entries})
	}

	if a.output == "json" {
		return writeJSON(a.stdout, written)
	}

	return printCatalogs(a.stdout, written)
}

// fillCatalog returns the catalogue of a release.
func (a *app) fillCatalog(ctx context.Context, talos, into string, extensions []*catalog.Extension) (*catalog.Catalogue, error) {
	catalogue := &catalog.Catalogue{}

	if into != "" {
		existing, err := oci.OpenLayout(into)
		if err != nil {
			return nil, err
		}

		if catalogue, err = catalog.Read(ctx, existing); err != nil {
			return nil, err
		}
	}

	added := 0

	for _, extension := range extensions {
		if err := extension.CheckTalos(talos); err != nil {
			a.log().Warn(fmt.Sprintf("%s is left out of the catalogue of Talos %s: %v", extension.Line, talos, err))

			continue
		}

		if err := catalogue.Add(extension.Entry); err != nil {
			return nil, err
		}

		added++
	}

	if added == 0 {
		return nil, answerNo{fmt.Errorf("none of the extensions is for Talos %s; see cnibake lint --talos %s", talos, talos)}
	}

	return catalogue, nil
}

// describeExtension reads one argument.
func (a *app) describeExtension(ctx context.Context, argument string, flags registryFlags) (*catalog.Extension, error) {
	if named, dir, ok := strings.Cut(argument, "="); ok {
		return describeLayout(ctx, dir, named)
	}

	if oci.IsLayout(argument) {
		named, err := airgap.NameOf(argument)
		if err != nil {
			return nil, fmt.Errorf("%w: give it as NAME:TAG=%s", err, argument)
		}

		return describeLayout(ctx, argument, named)
	}

	if _, err := os.Stat(argument); err == nil || !oci.LooksRemote(argument) {
		return nil, fmt.Errorf("%s is neither an OCI layout nor a registry reference", argument)
	}

	client, err := a.registryClient(flags)
	if err != nil {
		return nil, err
	}

	repository, err := client.Repository(argument)
	if err != nil {
		return nil, err
	}

	tagged, _, _ := strings.Cut(argument, "@")

	return catalog.Describe(ctx, repository, tagged)
}

func describeLayout(ctx context.Context, dir, named string) (*catalog.Extension, error) {
	layout, err := oci.OpenLayout(dir)
	if err != nil {
		return nil, err
	}

	return catalog.Describe(ctx, layout, named)
}

func printCatalogs(w io.Writer, written []writtenCatalog) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TALOS\tLAYOUT\tEXTENSION")

	for _, c := range written {
		for _, entry := range c.Entries {
			fmt.Fprintf(table, "%s\t%s\t%s\n", c.Talos, c.Layout, entry.Line)
		}
	}

	return table.Flush()
}

// replaceLayout has a layout written beside its place and moves it there. A layout that was there goes;
// anything else stays, and is an error.
func replaceLayout(dir string, write func(beside string) error) error {
	if _, err := os.Lstat(dir); err == nil && !oci.IsLayout(dir) {
		return fmt.Errorf("%s is there, and it is not an OCI layout: choose another --out", dir)
	}

	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}

	staging, err := os.MkdirTemp(parent, ".cnibake-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)

	written, retired := filepath.Join(staging, "new"), filepath.Join(staging, "old")
	if err := write(written); err != nil {
		return err
	}

	if err := ignoreMissing(os.Rename(dir, retired)); err != nil {
		return err
	}

	if err := os.Rename(written, dir); err != nil {
		// What was there comes back, or it would go with the staging directory.
		return errors.Join(err, ignoreMissing(os.Rename(retired, dir)))
	}

	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	return err
}
