package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

type verifyOptions struct {
	common
	upper           string
	takeOver, exact bool
}

func runVerify(ctx context.Context, env environment, args []string, out io.Writer) error {
	var o verifyOptions

	flags := newFlags("verify")
	o.add(flags)
	o.addDistro(flags)
	flags.StringVar(&o.upper, "upper", "", "")
	addBool(flags, &o.takeOver, "take-over")
	addBool(flags, &o.exact, "exact")

	if err := o.common.parse(env, flags, args); err != nil {
		return err
	}

	return verify(ctx, o, out)
}

func verify(ctx context.Context, o verifyOptions, out io.Writer) error {
	v, err := stage.Verify(ctx, stage.VerifyOptions{
		Source: o.source, Dest: o.dest, Upper: o.upper, Selection: o.selection,
		Distro: o.distro, TakeOver: o.takeOver, Exact: o.exact,
	})
	if err != nil {
		return fmt.Errorf("verifying %s: %w", o.dest, err)
	}

	if o.json {
		err = writeJSON(out, v)
	} else {
		writeVerification(out, v)
	}

	if err != nil {
		return err
	}

	if !v.Good {
		return &answerNo{fmt.Sprintf("%s is not as %s says", v.Dest, v.Against)}
	}

	return nil
}

func writeVerification(out io.Writer, v *stage.Verification) {
	for _, c := range v.Plugins {
		text := string(c.State)

		switch {
		case c.Reason != "":
			text += " (" + c.Reason + ")"
		case c.State == stage.Altered:
			text += fmt.Sprintf(" (%s instead of %s)", stage.Short(c.Digest), stage.Short(c.Want))
		}

		fmt.Fprintf(out, "%s: %s\n", c.Name, strings.TrimSpace(text))
	}

	for _, n := range v.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
}
