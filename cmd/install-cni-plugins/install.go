package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

type installOptions struct {
	common
	update                                  stage.Update
	takeOver, exact, create, strict, dryRun bool
}

func (o *installOptions) parse(env environment, args []string) error {
	o.update = stage.Always

	// Whatever names the policy in our own words wins over the variable known from elsewhere.
	if value, ok := env[envUpdate]; ok && value != "true" {
		o.update = stage.Missing
	}

	flags := newFlags("install")
	o.add(flags)
	o.addState(flags)
	o.addDistro(flags)
	flags.Var(updateFlag{&o.update}, "update", "")
	o.addSwitches(flags)

	return o.common.parse(env, flags, args)
}

func (o *installOptions) addSwitches(flags *flag.FlagSet) {
	addBool(flags, &o.takeOver, "take-over")
	addBool(flags, &o.exact, "exact")
	addBool(flags, &o.create, "create")
	addBool(flags, &o.strict, "strict")
	addBool(flags, &o.dryRun, "dry-run")
}

func runInstall(ctx context.Context, env environment, args []string, out io.Writer) error {
	var o installOptions
	if err := o.parse(env, args); err != nil {
		return err
	}

	return install(ctx, o, out)
}

func install(ctx context.Context, o installOptions, out io.Writer) error {
	report, err := stage.Install(ctx, stage.InstallOptions{
		Source: o.source, Dest: o.dest, StateDir: o.state, Selection: o.selection,
		Update: o.update, Distro: o.distro,
		TakeOver: o.takeOver, Exact: o.exact, Create: o.create, DryRun: o.dryRun,
	})

	results := &results{Writer: out}

	if o.json {
		_ = writeJSON(results, report) // the results know
	} else {
		writeReport(results, report)
	}

	if err != nil {
		return fmt.Errorf("staging into %s was interrupted: %w", o.dest, err)
	}

	text := complaint(report, o.json)

	if results.err != nil {
		text += results.err.Error() + "\n"
	}

	switch {
	case results.err != nil && o.strict:
		return errors.New(text)
	case results.err != nil:
		return &toleratedError{text}
	case !report.Good() && o.strict, report.SkippedStaging != "" && o.strict:
		return &answerNo{text}
	case !report.Good():
		return &toleratedError{text}
	case text != "":
		return &note{text}
	default:
		return nil
	}
}

// complaint is what stderr and the termination log say: a sentence for each thing that went wrong, and
// the summary at the end, which is what a reader of a log sees first.
func complaint(r *stage.Report, json bool) string {
	var lines []string

	if !json {
		for _, n := range r.Notes {
			lines = append(lines, "note: "+n)
		}
	}

	for _, p := range r.Plugins {
		if p.Action == stage.Failed {
			lines = append(lines, failure(p))
		}
	}

	lines = append(lines, r.Errors...)

	if r.SkippedStaging != "" {
		lines = append(lines, r.SkippedStaging)
	}

	if len(r.Failed) > 0 {
		lines = append(lines, "failed to install: "+strings.Join(r.Failed, " "))
	}

	if len(lines) == 0 {
		return ""
	}

	return strings.Join(lines, "\n") + "\n"
}

// failure is the sentence about one plugin; where it begins with the name that is not said twice.
func failure(p stage.Result) string {
	if strings.HasPrefix(p.Reason, p.Name+" ") {
		return p.Reason
	}

	return p.Name + ": " + p.Reason
}
