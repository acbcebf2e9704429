package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/extension/lint"
)

func (a *app) lintCommand() *cobra.Command {
	var (
		o        lint.Options
		registry registryFlags
	)

	cmd := &cobra.Command{
		Use:   "lint ARTIFACT",
		Short: "Hold a Talos system extension to every rule",
		Long: `Lint looks at a Talos system extension, ours or anyone's: an OCI image layout, an
extension tar, an unpacked directory or an image in a registry. It says what would go wrong in the
imager or on a node, where the extension says so, and which flows take the artifact: Talos's imager,
the installer on a node (up to 1.9), Image Factory, and the validator of the official catalogue,
which is judged as of the release that the table names.

Without --talos it judges for every Talos release that the extension itself admits.
Lint exits 1 when there are errors; warnings and notes alone are good.`,
		Example: `  cnibake lint dist/talos
  cnibake lint dist/talos-readonly-amd64.tar --talos v1.13.9
  cnibake lint ghcr.io/siderolabs/gvisor:20260101.0 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.registryClient(registry)
			if err != nil {
				return err
			}

			o.Pull = client.Get

			return a.lint(cmd.Context(), args[0], o)
		},
	}

	cmd.Flags().StringVar(&o.Talos, "talos", "", "Talos release to judge for, such as v1.13.9")
	registry.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) lint(ctx context.Context, artifact string, o lint.Options) error {
	if err := checkOne(artifact); err != nil {
		return err
	}

	report, err := lint.Lint(ctx, artifact, o)
	if err != nil {
		return err
	}

	if a.output == "json" {
		err = writeJSON(a.stdout, report)
	} else {
		err = printLint(a.stdout, report)
	}

	if err != nil {
		return err
	}

	if n := countOnce(report)[lint.Error]; n > 0 {
		return answerNo{fmt.Errorf("%s has %s", artifact, plural(n, "error"))}
	}

	return nil
}

// printLint writes what a person wants to read: each finding once for all architectures that have it, and
// release lines with the same answer together.
func printLint(w io.Writer, report *lint.Report) error {
	for _, e := range report.Extensions {
		fmt.Fprintf(w, "%s %s%s, for Talos %s\n", e.Name, e.Version, inParentheses(e.Arch), cmp.Or(e.Compatibility, "of any version"))
	}

	for i, f := range report.Findings {
		if slices.ContainsFunc(report.Findings[:i], sameFinding(f)) {
			continue
		}

		var archs []string

		for _, other := range report.Findings[i:] {
			if sameFinding(f)(other) && other.Arch != "" {
				archs = append(archs, other.Arch)
			}
		}

		where := ""
		if f.Path != "" {
			where = f.Path + ": "
		}

		fmt.Fprintf(w, "\n%s: %s%s%s [%s]\n    %s\n", f.Severity, where, f.Message, inParentheses(strings.Join(archs, ", ")), f.Rule, f.Effect)
	}

	if err := printFlows(w, report.Flows); err != nil {
		return err
	}

	counts := countOnce(report)
	_, err := fmt.Fprintf(w, "\n%s, %s, %s\n", plural(counts[lint.Error], "error"), plural(counts[lint.Warning], "warning"), plural(counts[lint.Note], "note"))

	return err
}

// countOnce counts findings by severity, those for several architectures once.
func countOnce(report *lint.Report) map[lint.Severity]int {
	counts := make(map[lint.Severity]int)

	for i, f := range report.Findings {
		if !slices.ContainsFunc(report.Findings[:i], sameFinding(f)) {
			counts[f.Severity]++
		}
	}

	return counts
}

// sameFinding tells the same finding for another architecture.
func sameFinding(f lint.Finding) func(lint.Finding) bool {
	return func(other lint.Finding) bool {
		return other.Rule == f.Rule && other.Severity == f.Severity && other.Path == f.Path && other.Message == f.Message
	}
}

func printFlows(w io.Writer, flows []lint.Verdict) error {
	var text strings.Builder

	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FLOW\tTALOS\tTAKES IT\tBECAUSE")

	for i := 0; i < len(flows); {
		first := flows[i]
		rules := rulesOf(first)
		last := first

		for i++; i < len(flows) && flows[i].Flow == first.Flow && flows[i].Accepted == first.Accepted && rulesOf(flows[i]) == rules; i++ {
			last = flows[i]
		}

		answer, reason := "yes", ""

		if !first.Accepted {
			r := first.Reasons[0]
			answer, reason = "no", fmt.Sprintf("%s%s [%s]", r.Message, inParentheses(r.Arch), rules)
		}

		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", first.Flow, span(first.Talos, last.Talos), answer, reason)
	}

	if err := table.Flush(); err != nil {
		return err
	}

	_, err := fmt.Fprintf(w, "\n%s\n", trailingSpaces.ReplaceAllString(strings.TrimSpace(text.String()), ""))

	return err
}

var trailingSpaces = regexp.MustCompile(`(?m) +$`)

// rulesOf names the rules for which a flow refuses the artifact.
func rulesOf(v lint.Verdict) string {
	var rules []string

	for _, r := range v.Reasons {
		if !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
	}

	return strings.Join(rules, ", ")
}

// span joins two ranges, such as 1.9 and 1.10 or "1.5 to 1.8" and 1.9.
func span(first, last string) string {
	if first == last {
		return first
	}

	from, _, _ := strings.Cut(first, " to ")
	if _, to, ok := strings.Cut(last, " to "); ok {
		last = to
	}

	return from + " to " + last
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}

	return " (" + text + ")"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}

	return fmt.Sprintf("%d %ss", n, what)
}
