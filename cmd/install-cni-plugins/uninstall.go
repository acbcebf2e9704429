package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

type uninstallOptions struct {
	common
	dryRun bool
}

func runUninstall(ctx context.Context, env environment, args []string, out io.Writer) error {
	var o uninstallOptions

	flags := newFlags("uninstall")
	o.add(flags)
	o.addState(flags)
	addBool(flags, &o.dryRun, "dry-run")

	if err := o.common.parse(env, flags, args); err != nil {
		return err
	}

	return uninstall(ctx, o, out)
}

func uninstall(ctx context.Context, o uninstallOptions, out io.Writer) error {
	report, err := stage.Uninstall(ctx, stage.UninstallOptions{
		Source: o.source, Dest: o.dest, StateDir: o.state, Selection: o.selection, DryRun: o.dryRun,
	})
	if err != nil {
		return fmt.Errorf("uninstalling from %s: %w", o.dest, err)
	}

	if o.json {
		err = writeJSON(out, report)
	} else {
		writeReport(out, report)

		for _, n := range report.Notes {
			fmt.Fprintf(out, "note: %s\n", n)
		}
	}

	if err != nil {
		return err
	}

	var left []string

	for _, p := range report.Plugins {
		if p.Action == stage.Left || p.Action == stage.Failed {
			left = append(left, p.Name)
		}
	}

	lines := report.Errors
	if len(left) > 0 {
		lines = append([]string{"left in place: " + strings.Join(left, " ")}, lines...)
	}

	if len(lines) > 0 {
		return &answerNo{strings.Join(lines, "\n")}
	}

	return nil
}
