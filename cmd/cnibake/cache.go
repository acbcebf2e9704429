package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Manage what builds keep in the user's cache directory",
		Long: `Builds keep downloads, compiled plugins and compressed layers in cnibake/ below
XDG_CACHE_HOME or ~/.cache, up to 2 GiB. Content is verified on every use.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(&cobra.Command{
		Use:     "clean",
		Short:   "Remove everything in the cache",
		Long:    "Clean removes everything in the cache; the next build makes or downloads it again.",
		Example: "  cnibake cache clean",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cache, err := a.cache()
			if err != nil {
				return err
			}

			freed, err := cache.Clean()
			if err != nil {
				return fmt.Errorf("cleaning %s: %w", cache.Dir(), err)
			}

			_, err = fmt.Fprintf(a.stdout, "removed %s from %s\n", size(freed), cache.Dir())

			return err
		},
	})

	return cmd
}
