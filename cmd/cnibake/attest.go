package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/payload"
)

type attestOptions struct {
	signer        signerFlags
	registry      registryFlags
	from          string
	predicate     string
	predicateType string
}

func (a *app) attestCommand() *cobra.Command {
	var o attestOptions

	cmd := &cobra.Command{
		Use:   "attest DIST|LAYOUT|FILE|REGISTRY/REPO:TAG",
		Short: "Attach signed provenance and SBOMs to images and files",
		Long: `Attest signs what cnibake build stated about its artifacts, their provenance (SLSA v1) and their SBOMs
(SPDX), and attaches it: to an image with all its architectures as cosign's bundles and as cosign's older
attestations, to a file as FILE.intoto.jsonl beside it, a bundle a line.

The statements are those of the build that the layout or file lies in; for an image in a registry --from
names that build. --predicate attaches something else: to the index or image itself, or to the file.`,
		Example: `  cnibake attest --key cosign.key dist
  cnibake attest --key cosign.key --from dist registry.example/cni-plugins:v1.9.1-1
  cnibake attest --key cosign.key --predicate scan.json --type vuln registry.example/cni-plugins:v1.9.1-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.attest(cmd.Context(), args[0], o) },
	}

	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "the output `DIR` of the build that made it")
	flags.StringVar(&o.predicate, "predicate", "", "attach what this JSON `FILE` says instead")
	flags.StringVar(&o.predicateType, "type", "", "type of --predicate: a URI, or "+strings.Join(slices.Sorted(maps.Keys(predicateTypes)), ", "))
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(slices.Sorted(maps.Keys(predicateTypes)), cobra.ShellCompDirectiveNoFileComp))
	o.signer.addFlags(cmd)
	o.registry.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

// predicateTypes are cosign's short names.
var predicateTypes = map[string]string{
	"slsaprovenance1": attest.Provenance,
	"spdxjson":        attest.SPDX,
	"cyclonedx":       "https://cyclonedx.org/bom",
	"openvex":         "https://openvex.dev/ns",
	"vuln":            "https://cosign.sigstore.dev/attestation/vuln/v1",
}

func (a *app) attest(ctx context.Context, argument string, o attestOptions) error {
	if (o.predicate == "") != (o.predicateType == "") || o.predicate != "" && o.from != "" {
		return usageError{errors.New("--predicate and --type go together, and not with --from"), "cnibake attest"}
	}

	target, err := a.openSignable(ctx, argument, o.registry)
	if err != nil {
		return refusal(err)
	}

	statements, err := o.statements(ctx, target)
	if err != nil {
		return refusal(err)
	}

	signer, err := a.signer(ctx, o.signer)
	if err != nil {
		return err
	}

	attested, err := target.Attest(ctx, signer, statements)
	if err != nil {
		return refusal(err)
	}

	return a.printSigned(attested)
}

// statements are what is to be attached.
func (o attestOptions) statements(ctx context.Context, target builder.Signable) ([]attest.Statement, error) {
	if o.predicate != "" {
		return o.foreign(ctx, target)
	}

	dist := target.Dist

	if o.from != "" {
		if !builder.IsDist(o.from) {
			return nil, fmt.Errorf("%s is not the output of a build: it lacks %s or %s", o.from, builder.ReportName, builder.SumsName)
		}

		var err error
		if dist, err = builder.OpenDist(o.from); err != nil {
			return nil, err
		}
	}

	if dist == nil {
		return nil, usageError{errors.New("give --from, the output directory of the build that made it, or --predicate"), "cnibake attest"}
	}

	return dist.Statements(ctx)
}

// foreign is a statement of the user's own about the root of an image, or about a file.
func (o attestOptions) foreign(ctx context.Context, target builder.Signable) ([]attest.Statement, error) {
	predicateType, known := predicateTypes[o.predicateType]
	if !known {
		predicateType = o.predicateType
	}

	if !strings.Contains(predicateType, ":") {
		return nil, usageError{fmt.Errorf("type %q is neither a URI nor one of %s", o.predicateType, strings.Join(slices.Sorted(maps.Keys(predicateTypes)), ", ")), "cnibake attest"}
	}

	data, err := readSmall(o.predicate, maxPredicate)
	if err != nil {
		return nil, fmt.Errorf("reading the predicate: %w", err)
	}

	if !json.Valid(data) {
		return nil, fmt.Errorf("reading the predicate: %s is not JSON", o.predicate)
	}

	switch {
	case target.Whole():
		return nil, usageError{errors.New("--predicate is about one layout, file or image, not a whole build"), "cnibake attest"}
	case target.Store != nil:
		subjects, err := target.Store.Subjects(ctx)
		if err != nil {
			return nil, err
		}

		return []attest.Statement{attest.NewStatement(target.Repository, subjects[0].Descriptor.Digest.String(), predicateType, data)}, nil
	default:
		digest, _, err := payload.DigestFile(target.File)

		return []attest.Statement{attest.NewStatement(filepath.Base(target.File), digest, predicateType, data)}, err
	}
}
