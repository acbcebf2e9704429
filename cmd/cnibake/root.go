package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/cache"
)

// app is what commands share: where to write, and the environment, which is read here and nowhere else.
type app struct {
	environ        []string
	stdout, stderr io.Writer

	quiet  bool
	output string
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	a := &app{environ: environ, stdout: stdout, stderr: stderr}

	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)

	return exitCode(root.ExecuteContext(ctx), stderr)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "cnibake",
		Short: "Bake the CNI reference plugins into Kubernetes node images",
		Long: `cnibake bakes the CNI reference plugins (bridge, macvlan, ipvlan, vlan, ...) into
Kubernetes node images: as a Talos system extension, as a tarball for any Linux,
and as a container image that stages them on nodes that cannot be rebuilt.

Exit codes: 0 good; 1 the answer is no, as when something is altered, refused or out of step;
2 could not do it.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{err, cmd.CommandPath()} })
	root.AddCommand(a.buildCommand(), a.inspectCommand(), a.lintCommand(), a.checkCommand(), a.bundleCommand(), a.catalogCommand(), a.imagerProfileCommand(), a.manifestCommand(), a.pushCommand(), a.signCommand(), a.attestCommand(), a.verifyCommand(), a.profileCommand(), a.cacheCommand(), a.versionCommand())

	explainArguments(root)

	return root
}

// explainArguments makes wrong arguments, like wrong flags, end in a pointer to the help.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err, cmd.CommandPath()}
			}

			return nil
		}
	}

	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
}

// addOutputFlag gives a command that reports its -o.
func (a *app) addOutputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "text", "output format: text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))

	inner := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.output != "text" && a.output != "json" {
			return usageError{fmt.Errorf("output format %q is none of text, json", a.output), cmd.CommandPath()}
		}

		if inner != nil {
			return inner(cmd, args)
		}

		return nil
	}
}

// env returns a variable of the environment, or "".
func (a *app) env(key string) string {
	value, _ := a.lookupEnv(key)

	return value
}

func (a *app) lookupEnv(key string) (string, bool) {
	// The last one wins, as it does for programs that are started.
	for _, pair := range slices.Backward(a.environ) {
		if value, ok := strings.CutPrefix(pair, key+"="); ok {
			return value, true
		}
	}

	return "", false
}

// cache is the cache in the user's cache directory (XDG base directories).
func (a *app) cache() (*cache.Cache, error) {
	dir := a.env("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home := a.env("HOME")
		if !filepath.IsAbs(home) {
			return nil, fmt.Errorf("finding the cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path: set one")
		}

		dir = filepath.Join(home, ".cache")
	}

	return cache.New(filepath.Join(dir, "cnibake"), cache.DefaultLimit), nil
}

// log writes plain lines to standard error, or nothing with --quiet.
func (a *app) log() *slog.Logger {
	if a.quiet {
		return slog.New(slog.DiscardHandler)
	}

	return slog.New(lineHandler{a.stderr})
}
