package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/extension/lint"
)

// defaultExtension is where `cnibake build` leaves the extension.
const defaultExtension = "dist/talos"

type imagerProfileOptions struct {
	profile       extension.ImagerProfile
	file          string
	extension     string
	path          string
	machineConfig string
	registry      registryFlags
	// changed reports whether a flag was given.
	changed func(flag string) bool
}

func (a *app) imagerProfileCommand() *cobra.Command {
	var o imagerProfileOptions

	cmd := &cobra.Command{
		Use:   "imager-profile --talos RELEASE | -f FILE",
		Short: "Write a profile for the Talos imager, or add the extension to one",
		Long: `Imager-profile writes a profile for the Talos imager that puts the extension into an
installer, ISO, disk image or initramfs. With -f it prints an existing profile with the extension
added, and every other byte of it as it was; -f - reads it from standard input.

The extension is recognised by content: the directory of an OCI layout becomes ociPath, a plain tar
tarballPath, a registry reference imageRef with its digest. Local ones are held to the rules of
cnibake lint first; a profile that this imager would refuse is not written. The profile has the path
that --extension has: give --path where the imager's container sees it elsewhere.`,
		Example: `  cnibake imager-profile --talos v1.13.9 --kind iso --extension dist/talos-readonly --path /dist/talos-readonly |
      docker run --rm -i -v $PWD/dist:/dist -v $PWD/out:/out ghcr.io/siderolabs/imager:v1.13.9 -
  cnibake imager-profile -f profile.yaml --extension registry.example/cni-plugins:v1.9.1-1
  cnibake imager-profile --talos v1.13.9 --machine-config patch.yaml > profile.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.changed = cmd.Flags().Changed

			return a.imagerProfile(cmd.Context(), o, cmd.InOrStdin())
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&o.profile.Talos, "talos", "", "Talos release, such as v1.13.9")
	flags.StringVar(&o.profile.Kind, "kind", "installer", "what the imager makes: "+strings.Join(extension.ImagerKinds(), ", "))
	flags.StringVar(&o.profile.Arch, "arch", "amd64", "architecture: amd64 or arm64")
	flags.BoolVar(&o.profile.SecureBoot, "secureboot", false, "make the variant for UEFI secure boot")
	flags.StringVar(&o.extension, "extension", defaultExtension, "OCI layout, plain tar or registry reference of the extension")
	flags.StringVar(&o.path, "path", "", "path of the layout or tar as the imager's container sees it (default: as --extension says)")
	flags.StringVarP(&o.file, "filename", "f", "", "add to this profile; - is standard input")
	flags.StringVar(&o.machineConfig, "machine-config", "", "also write the machine configuration patch for drivers to this file")

	o.registry.addFlags(cmd)

	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(extension.ImagerKinds(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64"}, cobra.ShellCompDirectiveNoFileComp))

	return cmd
}

func (a *app) imagerProfile(ctx context.Context, o imagerProfileOptions, stdin io.Reader) error {
	const command = "cnibake imager-profile"

	if (o.file == "") == (o.profile.Talos == "") {
		return usageError{errors.New("give either --talos for a new profile or -f for an existing one"), command}
	}

	for _, flag := range []string{"kind", "arch", "secureboot"} {
		if o.file != "" && o.changed(flag) {
			return usageError{fmt.Errorf("--%s is for a new profile: the one of -f says it itself", flag), command}
		}
	}

	existing, err := readProfile(o.file, stdin)
	if err != nil {
		return err
	}

	if existing != nil {
		said, err := extension.ReadImagerProfile(existing)
		if err != nil {
			return err
		}

		o.profile.Talos, o.profile.Arch = said.Talos, said.Arch
	}

	client, err := a.registryClient(o.registry)
	if err != nil {
		return err
	}

	asset, err := extension.FindImagerAsset(ctx, o.extension, client.Digest)
	if errors.Is(err, fs.ErrNotExist) && !o.changed("extension") {
		return fmt.Errorf("%w: run cnibake build first, or give --extension", err)
	}

	if err != nil {
		return err
	}

	if err := checkForImager(ctx, asset, o); err != nil {
		return err
	}

	if asset, err = asset.At(o.path); err != nil {
		return usageError{err, command}
	}

	var out []byte

	if existing != nil {
		out, err = extension.AddToImagerProfile(existing, asset)
	} else {
		o.profile.Extensions = []extension.ImagerAsset{asset}
		out, err = o.profile.Encode()
	}

	if err != nil {
		return err
	}

	if err := a.writeMachineConfig(o); err != nil {
		return err
	}

	_, err = a.stdout.Write(out)

	return err
}

// maxProfile bounds what is read as a profile; real ones have a few kilobytes.
const maxProfile = 1 << 20

func readProfile(file string, stdin io.Reader) ([]byte, error) {
	var (
		data []byte
		err  error
	)

	switch file {
	case "":
		return nil, nil
	case "-":
		data, err = io.ReadAll(io.LimitReader(stdin, maxProfile+1))
	default:
		data, err = os.ReadFile(file)
	}

	if err != nil {
		return nil, fmt.Errorf("reading profile: %w", err)
	}

	if len(data) > maxProfile {
		return nil, fmt.Errorf("reading profile: more than %d bytes", maxProfile)
	}

	if len(data) == 0 {
		return nil, errors.New("reading profile: it is empty")
	}

	return data, nil
}

// checkForImager keeps a profile from being written that the imager of this release would refuse. What lies
// in a registry is not downloaded for it.
func checkForImager(ctx context.Context, asset extension.ImagerAsset, o imagerProfileOptions) error {
	if asset.ImageRef != "" || o.profile.Talos == "" {
		return nil
	}

	report, err := lint.Lint(ctx, o.extension, lint.Options{Talos: o.profile.Talos})
	if err != nil {
		return err
	}

	for _, v := range report.Flows {
		if v.Flow == "imager" && !v.Accepted {
			r := v.Reasons[0]

			return answerNo{fmt.Errorf("the imager of Talos %s does not take %s: %s [%s]; see cnibake lint %s --talos %s",
				o.profile.Talos, o.extension, r.Message, r.Rule, o.extension, o.profile.Talos)}
		}
	}

	if asset.OCIPath == "" || o.profile.Arch == "" {
		return nil
	}

	for _, e := range report.Extensions {
		if e.Arch == o.profile.Arch {
			return nil
		}
	}

	return answerNo{fmt.Errorf("%s has no image for %s", o.extension, o.profile.Arch)}
}

func (a *app) writeMachineConfig(o imagerProfileOptions) error {
	if o.machineConfig == "" {
		return nil
	}

	if o.profile.Talos == "" {
		return errors.New("writing machine configuration: the profile has no version, and drivers differ from release to release: add one")
	}

	patch, err := extension.Drivers(o.profile.Talos)
	if err != nil {
		return err
	}

	for _, warning := range patch.Warnings {
		a.log().Warn(warning)
	}

	if err := writeWhole(o.machineConfig, patch.YAML); err != nil {
		return fmt.Errorf("writing machine configuration: %w", err)
	}

	return nil
}
