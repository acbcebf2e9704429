package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/profiles"
)

// ownVersion is the module version this program was built from; "(devel)" for a checkout.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}

	return info.Main.Version
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the versions of cnibake and of the plugins it carries",
		Long:    "Version shows the version of cnibake, the Go version and platform it was built for, and the default pin.",
		Example: "  cnibake version\n  cnibake version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			pin, err := profiles.LoadPin(profiles.DefaultPin)
			if err != nil {
				return err
			}

			if a.output == "json" {
				return writeJSON(a.stdout, map[string]string{
					"version": ownVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
					"pin": pin.Version, "packagedVersion": pin.PackagedVersion(),
				})
			}

			_, err = fmt.Fprintf(a.stdout, "cnibake %s (%s, %s/%s), plugins %s\n",
				ownVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, pin.PackagedVersion())

			return err
		},
	}

	a.addOutputFlag(cmd)

	return cmd
}
