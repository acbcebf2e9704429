package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

func writeJSON(out io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}

	_, err = out.Write(append(data, '\n'))

	return err
}

// writeReport writes one line a plugin, and the summary of what failed.
func writeReport(out io.Writer, r *stage.Report) {
	if r.SkippedStaging != "" {
		fmt.Fprintln(out, r.SkippedStaging)
	}

	for _, p := range r.Plugins {
		fmt.Fprintf(out, "%s: %s\n", p.Name, action(p, r.DryRun))
	}

	if len(r.Failed) > 0 && r.Operation == "install" {
		fmt.Fprintf(out, "failed to install: %s\n", strings.Join(r.Failed, " "))
	}
}

func action(p stage.Result, dryRun bool) string {
	text := string(p.Action)

	if dryRun && p.Changes() {
		text = "would be " + text
	}

	switch p.Action {
	case stage.Failed:
		return text + ": " + p.Reason
	case stage.Replaced:
		text += " " + stage.Short(p.Old) + "->" + stage.Short(p.New)
	}

	var why []string
	if p.Reason != "" {
		why = append(why, p.Reason)
	}

	if p.Foreign && (p.Action == stage.Replaced || p.Reason == "present") {
		why = append(why, "foreign")
	}

	if len(why) > 0 {
		text += " (" + strings.Join(why, ", ") + ")"
	}

	return text
}
