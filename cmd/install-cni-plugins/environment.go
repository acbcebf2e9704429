package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
)

const (
	envPrefix = "CNI_INSTALL_"
	// The names that people know from RKE2's plugin image.
	envSkip   = "SKIP_CNI_BINARIES"
	envUpdate = "UPDATE_CNI_BINARIES"
)

// environment is the process environment, read once. Empty variables count as unset, because a
// manifest sets a variable to nothing where a template had nothing to put there.
type environment map[string]string

func newEnvironment(environ []string) environment {
	env := environment{}

	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			env[name] = value
		}
	}

	return env
}

// parse reads flags from the arguments, and those that are not among them from the environment.
func (e environment) parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return err
		}

		return usagef("%w", err)
	}

	if flags.NArg() > 0 {
		return usagef("unexpected argument %q", flags.Arg(0))
	}

	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })

	if given["o"] {
		given["output"] = true
	}

	var err error

	flags.VisitAll(func(f *flag.Flag) {
		variable := envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))

		if value, ok := e[variable]; ok && !given[f.Name] && len(f.Name) > 1 && err == nil {
			if e := f.Value.Set(value); e != nil {
				err = usagef("%s=%q: %w", variable, value, e)
			}
		}
	})

	return err
}

// parseBool reads a yes or no strictly: what means neither is an error, never a no.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("%q is neither true, yes, on, 1 nor false, no, off, 0", s)
	}
}

// parseNames reads a list of plugin names separated by commas.
func parseNames(s string) ([]string, error) {
	var names []string

	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)

		switch {
		case name == "":
		case !payload.ValidName(name):
			return nil, fmt.Errorf("%q is not a plugin name", name)
		default:
			names = append(names, name)
		}
	}

	if len(names) == 0 {
		return nil, fmt.Errorf("%q names no plugin", s)
	}

	return names, nil
}
