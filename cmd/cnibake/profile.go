package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

func (a *app) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, show and validate profiles",
		Long:  "A profile is a target description: format, directories, plugin selection, labels. Built-in ones and your own work alike.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	list := &cobra.Command{
		Use:     "list",
		Short:   "List the built-in profiles",
		Long:    "List shows the built-in profiles with their formats and plugin directories.",
		Example: "  cnibake profile list",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.listProfiles() },
	}
	a.addOutputFlag(list)

	cmd.AddCommand(list, &cobra.Command{
		Use:               "show PROFILE",
		Short:             "Print a profile's YAML, to start one of your own from",
		Long:              "Show prints a built-in profile as it is, comments included. Give a copy a name of its own: it begins the file names of what is built.",
		Example:           "  cnibake profile show generic-linux > my-profile.yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(profiles.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := profiles.Source(args[0])
			if err != nil {
				return err
			}

			_, err = a.stdout.Write(data)

			return err
		},
	}, &cobra.Command{
		Use:     "validate PROFILE|FILE.yaml ...",
		Short:   "Check profiles without building",
		Long:    "Validate decodes profiles strictly and checks every value. It exits 1 at a profile that cannot be built.",
		Example: "  cnibake profile validate ./my-profile.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.validateProfiles(args) },
	})

	return cmd
}

func (a *app) listProfiles() error {
	all := make([]profiles.Profile, 0, len(profiles.Names()))

	for _, name := range profiles.Names() {
		profile, err := profiles.Load(name)
		if err != nil {
			return err
		}

		all = append(all, profile)
	}

	if a.output == "json" {
		return writeJSON(a.stdout, all)
	}

	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROFILE\tFORMAT\tPLUGINS IN\tPACKAGING\tARCHITECTURES\tDESCRIPTION")

	for _, p := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Format, p.PluginDir, p.Packaging, strings.Join(p.Architectures, ","), p.Description)
	}

	return table.Flush()
}

func (a *app) validateProfiles(names []string) error {
	for _, name := range names {
		// A file that cannot be read is no verdict about its content.
		data, err := profiles.Source(name)
		if err != nil {
			return err
		}

		profile, err := profiles.Parse(name, data)
		if err != nil {
			return answerNo{err}
		}

		if _, err := distro.Lookup(profile.Distro); err != nil {
			return answerNo{fmt.Errorf("%s: %w", name, err)}
		}

		fmt.Fprintf(a.stdout, "%s: ok\n", name)
	}

	return nil
}
