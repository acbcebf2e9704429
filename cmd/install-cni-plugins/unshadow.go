package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

type unshadowOptions struct {
	common
	upper       string
	yes, dryRun bool
}

func runUnshadow(ctx context.Context, env environment, args []string, out io.Writer) error {
	var o unshadowOptions

	flags := newFlags("unshadow")
	o.add(flags)
	o.addDistro(flags)
	flags.StringVar(&o.upper, "upper", "", "")
	addBool(flags, &o.yes, "yes")
	addBool(flags, &o.dryRun, "dry-run")

	if err := o.common.parse(env, flags, args); err != nil {
		return err
	}

	if o.upper == "" {
		return usagef("unshadow needs --upper, the upper directory of the overlay; on Talos /var/system/overlays/opt-diff")
	}

	return unshadow(ctx, o, out)
}

func unshadow(ctx context.Context, o unshadowOptions, out io.Writer) error {
	u, err := stage.Unshadow(ctx, stage.UnshadowOptions{
		Source: o.source, Dest: o.dest, Upper: o.upper, Selection: o.selection,
		Distro: o.distro, Act: o.yes && !o.dryRun,
	})
	if err != nil {
		return fmt.Errorf("looking for shadows in %s: %w", o.upper, err)
	}

	if o.json {
		err = writeJSON(out, u)
	} else {
		writeUnshadowing(out, u, o.yes && !o.dryRun)
	}

	if err != nil {
		return err
	}

	if !u.Good() {
		return &answerNo{"some entries that hide baked plugins stay; each line says why"}
	}

	return nil
}

func writeUnshadowing(out io.Writer, u *stage.Unshadowing, acted bool) {
	for _, h := range u.Plugins {
		what := "would be removed"

		switch {
		case h.Reason != "":
			what = "left: " + h.Reason
		case h.Removed:
			what = "removed"
		}

		fmt.Fprintf(out, "%s: %s %s, %s\n", h.Path, h.Shadow, stage.Short(h.What), what)
	}

	for _, n := range u.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}

	switch {
	case len(u.Plugins) == 0:
		fmt.Fprintln(out, "nothing hides a baked plugin")
	case acted:
		fmt.Fprintln(out, "This takes effect after a reboot, when the overlay is mounted anew.")
	default:
		fmt.Fprintln(out, "Nothing was removed; --yes removes these entries. It takes effect after a reboot.")
	}
}
