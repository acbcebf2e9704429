package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/oci"
)

type pushOptions struct {
	registry registryFlags
	name     string
	ifAbsent bool
}

func (a *app) pushCommand() *cobra.Command {
	var o pushOptions

	cmd := &cobra.Command{
		Use:   "push LAYOUT REGISTRY/REPO:TAG",
		Short: "Publish a layout in a registry",
		Long: `Push publishes what "cnibake build" has written, or any OCI layout or OCI archive, as one
index of all its architectures, with the signatures and attestations that are in the layout. It
prints REGISTRY/REPO:TAG@DIGEST. What the registry has already is not sent again, and the tag is written
last: it never names something incomplete, and a push that was interrupted is finished by the next.

Where a layout lists an index, that index is published, byte for byte; where it lists images, as ours do,
the index is made of them. With --if-absent a tag that names something else stays, and push exits 1.

Credentials are looked for in ` + credentialPlaces + `;
credential helpers that these name are asked. HTTPS_PROXY and NO_PROXY are honoured.`,
		Example: `  cnibake push dist/talos registry.example/cni-plugins:v1.9.1-1
  cnibake push dist/init-container registry.example:5000/init:v1.9.1-1 --if-absent --ca-file ca.crt`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.push(cmd.Context(), args[0], args[1], o) },
	}

	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "what to publish of a layout that holds several: the `NAME` it has there")
	flags.BoolVar(&o.ifAbsent, "if-absent", false, "do not move a tag that names something else")
	o.registry.addFlags(cmd)
	o.registry.addJobsFlag(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

// pushed is what push reports.
type pushed struct {
	Reference   string `json:"reference"`
	Digest      string `json:"digest"`
	Uploaded    int    `json:"uploadedBlobs"`
	Present     int    `json:"presentBlobs"`
	Bytes       int64  `json:"uploadedBytes"`
	Attachments int    `json:"attachments"`
}

func (a *app) push(ctx context.Context, source, target string, o pushOptions) error {
	if _, err := name.NewTag(target, name.StrictValidation); err != nil || !oci.LooksRemote(target) {
		return usageError{fmt.Errorf("%q is not of the form REGISTRY/REPO:TAG", target), "cnibake push"}
	}

	if err := checkOne(source); err != nil {
		return err
	}

	client, err := a.registryClient(o.registry)
	if err != nil {
		return err
	}

	layout, done, err := openSource(ctx, source, o.name)
	if err != nil {
		return err
	}
	defer done()

	repository, err := client.Repository(target)
	if err != nil {
		return err
	}

	options := a.copyOptions()
	if o.ifAbsent {
		options = append(options, oci.IfAbsent())
	}

	copied, err := oci.Copy(ctx, layout, repository, options...)
	if taken := (*oci.TakenError)(nil); errors.As(err, &taken) {
		return answerNo{err}
	}

	if err != nil {
		return err
	}

	a.log().Info(fmt.Sprintf("sent %s (%s), %d were there; %s", plural(copied.Uploaded, "blob"), size(copied.Bytes), copied.Present, plural(copied.Attachments, "attachment")))

	reference := target + "@" + copied.Digest.String()

	if a.output == "json" {
		return writeJSON(a.stdout, pushed{reference, copied.Digest.String(), copied.Uploaded, copied.Present, copied.Bytes, copied.Attachments})
	}

	_, err = fmt.Fprintln(a.stdout, reference)

	return err
}

// openSource opens a layout, or an archive of one by unpacking it; done removes what that took.
func openSource(ctx context.Context, source, name string) (layout *oci.Layout, done func(), err error) {
	var options []oci.LayoutOption
	if name != "" {
		options = append(options, oci.WithName(name))
	}

	done = func() {}

	info, err := os.Stat(source)
	if err != nil {
		return nil, done, fmt.Errorf("opening layout: %w", err)
	}

	if info.Mode().IsRegular() {
		dir, err := os.MkdirTemp("", "cnibake-push-")
		if err != nil {
			return nil, done, err
		}

		done = func() { os.RemoveAll(dir) }

		if err := oci.UnpackFile(ctx, source, dir); err != nil {
			done()

			return nil, done, fmt.Errorf("opening archive %s: %w", source, err)
		}

		options = append(options, oci.WithTitle(source))
		source = dir
	}

	layout, err = oci.OpenLayout(source, options...)
	if err != nil {
		done()
	}

	return layout, done, err
}
