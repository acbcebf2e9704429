package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/extension/release"
	"github.com/cnibake/cnibake/extension/talosimage"
	"github.com/cnibake/cnibake/profiles"
)

type checkOptions struct {
	marker  string
	writer  string
	shipped []string
	fix     bool
	pull    bool
	// registry is for pull.
	registry registryFlags
}

// checkFormats are the values of -o; github prints annotations for a workflow.
var checkFormats = []string{"text", "json", "github"}

func (a *app) checkCommand() *cobra.Command {
	var options checkOptions

	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare the pinned plugins with what node images ship",
		Long: `Check compares the pin (the plugins' version), and the release it was last compared
with (the marker), with what a release of Talos or of another writer of the CNI bin
directory ships. It decides from evidence: a table of releases, an SBOM, the bytes in an image. It is offline unless
--pull is given. Without --shipped it checks the markers themselves.

The marker is a pin file, or any text with comments like
  # talos-cni-plugins-checked-against: v1.13.6
and an assignment of CNI_PLUGINS_VERSION. A shipped source is a version, an image
reference, an OCI layout, or a file recognised by what it contains: an imager profile,
a Talos machine configuration, the output of talosctl version or talosctl get version
-o yaml|json, kube-ovn values, a Pkgfile, an SPDX SBOM, an initramfs, a UKI, a squashfs;
- reads such a text from standard input.

Verdicts: in-step exits 0; move-marker (same version, other release) and conflict
(other version) exit 1; unknown (no evidence) exits 2. Of several the worst decides.`,
		Example: `  cnibake check --shipped v1.13.9
  cnibake check --marker Dockerfile --shipped installer.yaml --fix
  cnibake check --shipped controlplane.yaml --shipped worker.yaml -o json
  cnibake check --shipped ghcr.io/siderolabs/imager:v1.13.9 --pull
  talosctl version --nodes 10.0.0.2,10.0.0.3 | cnibake check --shipped -
  cnibake check --writer kube-ovn --shipped v1.15.10`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(checkFormats, a.output) {
				return usageError{fmt.Errorf("output format %q is none of %s", a.output, strings.Join(checkFormats, ", ")), cmd.CommandPath()}
			}

			if options.writer != "" {
				if err := release.CheckWriter(options.writer); err != nil {
					return usageError{err, cmd.CommandPath()}
				}
			}

			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), options) },
	}

	flags := cmd.Flags()
	flags.StringVar(&options.marker, "marker", profiles.DefaultPin, "a built-in pin, or the `FILE` with the pin and the markers")
	flags.StringVar(&options.writer, "writer", "", "whose release is shipped, where the source does not tell: talos, kube-ovn, ... (default talos for a version)")
	flags.StringArrayVar(&options.shipped, "shipped", nil, "what is shipped: a version, an image, a file, or - for standard input; can be repeated")
	flags.BoolVar(&options.fix, "fix", false, "write the shipped release into the marker where the versions are equal")
	flags.BoolVar(&options.pull, "pull", false, "read the images that references name from their registries, instead of believing the tags")
	options.registry.addFlags(cmd)
	flags.StringVarP(&a.output, "output", "o", "text", "output format: "+strings.Join(checkFormats, ", "))

	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(checkFormats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("writer", cobra.FixedCompletions(release.Writers(), cobra.ShellCompDirectiveNoFileComp))

	return cmd
}

// checkReport is what check says.
type checkReport struct {
	Verdict     release.Verdict      `json:"verdict"`
	Comparisons []release.Comparison `json:"comparisons"`
	// Moved says which markers --fix has moved, Stayed why it has not moved others.
	Moved  []string `json:"moved,omitempty"`
	Stayed []string `json:"stayed,omitempty"`
}

func (a *app) check(ctx context.Context, options checkOptions) error {
	pinned, err := readPinned(options.marker)
	if err != nil {
		return err
	}

	shipped, err := a.resolveShipped(ctx, pinned, options)
	if err != nil {
		return err
	}

	report, err := compareAll(pinned, shipped)
	if err != nil {
		return err
	}

	if options.fix {
		if report, err = fixMarkers(pinned, shipped, report); err != nil {
			return err
		}
	}

	if err := printCheck(a.stdout, a.output, report); err != nil {
		return err
	}

	return verdictError(report)
}

// readPinned loads a built-in pin by its version, or reads a file with markers.
func readPinned(marker string) (release.Pinned, error) {
	if slices.Contains(profiles.Pins(), marker) {
		pin, err := profiles.LoadPin(marker)
		if err != nil {
			return release.Pinned{}, err
		}

		return release.FromPin(pin), nil
	}

	return release.ReadMarkersFile(marker)
}

func (a *app) resolveShipped(ctx context.Context, pinned release.Pinned, options checkOptions) ([]release.Shipped, error) {
	var all []release.Shipped

	if len(options.shipped) == 0 {
		for _, shipped := range release.FromMarkers(pinned) {
			if options.writer == "" || shipped.Writer == options.writer {
				all = append(all, shipped)
			}
		}

		if len(all) == 0 {
			return nil, fmt.Errorf("%s has no marker for %s", pinned.File, options.writer)
		}
	}

	resolve := talosimage.Options{Stdin: os.Stdin}
	if options.pull {
		client, err := a.registryClient(options.registry)
		if err != nil {
			return nil, err
		}

		resolve.Pull = talosimage.Puller(client)
	}

	for _, source := range options.shipped {
		found, err := talosimage.Resolve(ctx, source, resolve)
		if err != nil {
			return nil, fmt.Errorf("checking: %w", err)
		}

		for _, shipped := range found {
			shipped, err := shipped.WithWriter(options.writer)
			if err != nil {
				return nil, fmt.Errorf("checking: %w", err)
			}

			all = append(all, shipped)
		}
	}

	return all, nil
}

func compareAll(pinned release.Pinned, all []release.Shipped) (checkReport, error) {
	var (
		report  checkReport
		results []release.Verdict
	)

	for _, shipped := range all {
		comparison, err := release.Compare(pinned, shipped)
		if err != nil {
			return checkReport{}, err
		}

		// The kernels of Talos differ in the drivers that plugins need.
		if comparison.Writer == release.Talos && comparison.Shipped.Release != "" && comparison.Verdict != release.Unknown {
			patch, err := extension.Drivers(comparison.Shipped.Release)
			if err != nil {
				return checkReport{}, err
			}

			comparison.Notes = append(comparison.Notes, patch.Warnings...)
		}

		report.Comparisons = append(report.Comparisons, comparison)
		results = append(results, comparison.Verdict)
	}

	report.Verdict = release.Worst(results...)

	return report, nil
}

// fixMarkers moves the markers that may move, and compares again.
func fixMarkers(pinned release.Pinned, shipped []release.Shipped, before checkReport) (checkReport, error) {
	moves, stay := release.PlanMoves(before.Comparisons)

	var moved []string

	for _, writer := range slices.Sorted(maps.Keys(moves)) {
		marker, _ := pinned.Marker(writer)

		var err error
		if pinned, err = pinned.MoveMarker(writer, moves[writer]); err != nil {
			return checkReport{}, err
		}

		moved = append(moved, fmt.Sprintf("%s line %d: the marker for %s from %s to %s", pinned.File, marker.Line, writer, marker.Release, moves[writer]))
	}

	report, err := compareAll(pinned, shipped)
	report.Moved, report.Stayed = moved, stay

	return report, err
}

// verdictError turns the worst verdict into the exit code's error.
func verdictError(report checkReport) error {
	count := make(map[release.Verdict]int)
	for _, c := range report.Comparisons {
		count[c.Verdict]++
	}

	var parts []string

	for _, v := range []release.Verdict{release.Unknown, release.Conflict, release.MoveMarker} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}

	switch report.Verdict {
	case release.InStep:
		return nil
	case release.Unknown:
		return errors.New("the pin is not known to be in step: " + strings.Join(parts, ", "))
	default:
		return answerNo{errors.New("the pin is not in step: " + strings.Join(parts, ", "))}
	}
}
