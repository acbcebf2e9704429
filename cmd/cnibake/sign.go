package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) signCommand() *cobra.Command {
	var (
		signer   signerFlags
		registry registryFlags
	)

	cmd := &cobra.Command{
		Use:   "sign DIST|LAYOUT|FILE|REGISTRY/REPO:TAG",
		Short: "Sign images and files",
		Long: `Sign signs an image with all its architectures, in a layout or in a registry: as cosign's bundle, which
Talos nodes read, and under the tag sha256-HEX.sig, which Image Factory and older cosign read. Signatures
in a layout go where it goes: cnibake push and cnibake bundle carry them. A file is signed in
FILE.sigstore.json beside it. Of what cnibake build has written, every image and archive is
signed, and SHA256SUMS last.

Signatures of others stay, and what the key has signed already is not signed again. To make a key:
cosign generate-key-pair, or openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256. What is
built must be attested too for cnibake verify: run cnibake attest first.`,
		Example: `  cnibake sign --key cosign.key dist
  cnibake sign --key cosign.key registry.example/cni-plugins:v1.9.1-1
  cnibake sign --identity-token token.txt --fulcio-url https://fulcio.example dist/talos`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sign(cmd.Context(), args[0], signer, registry) },
	}

	signer.addFlags(cmd)
	registry.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) sign(ctx context.Context, argument string, s signerFlags, registry registryFlags) error {
	target, err := a.openSignable(ctx, argument, registry)
	if err != nil {
		return refusal(err)
	}

	signer, err := a.signer(ctx, s)
	if err != nil {
		return err
	}

	signed, err := target.Sign(ctx, signer)
	if err != nil {
		return refusal(err)
	}

	return a.printSigned(signed)
}
