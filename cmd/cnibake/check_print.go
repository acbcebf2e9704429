package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cnibake/cnibake/extension/release"
)

func printCheck(w io.Writer, format string, report checkReport) error {
	switch format {
	case "json":
		return writeJSON(w, report)
	case "github":
		return printAnnotations(w, report)
	default:
		return printVerdicts(w, report)
	}
}

func printVerdicts(w io.Writer, report checkReport) error {
	var text strings.Builder

	for _, moved := range report.Moved {
		fmt.Fprintln(&text, "moved:", moved)
	}

	for _, stayed := range report.Stayed {
		fmt.Fprintln(&text, "not moved:", stayed)
	}

	if len(report.Comparisons) > 1 {
		if err := printTable(&text, report.Comparisons); err != nil {
			return err
		}
	}

	for _, c := range report.Comparisons {
		switch {
		case len(report.Comparisons) == 1:
			printComparison(&text, c)
		case c.Verdict != release.InStep:
			fmt.Fprintf(&text, "\n%s: ", printable(c.Source))
			printComparison(&text, c)
		case len(c.Notes) > 0:
			// In the table one line is enough for what is well.
			fmt.Fprintf(&text, "\n%s\n", printable(c.Source))
			printLines(&text, "note", c.Notes)
		}
	}

	_, err := io.WriteString(w, text.String())

	return err
}

func printTable(w io.Writer, all []release.Comparison) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SHIPPED\tWRITER\tRELEASE\tPLUGINS\tPIN\tVERDICT")

	for _, c := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(c.Source), c.Writer, orDash(c.Shipped.Release), orDash(c.Shipped.Version), c.Pin.Version, c.Verdict)
	}

	return table.Flush()
}

func printComparison(w io.Writer, c release.Comparison) {
	fmt.Fprintf(w, "%s: %s\n", c.Verdict, printable(c.Summary))

	for _, e := range c.Pin.Evidence {
		printLines(w, "pin", []string{e.String()})
	}

	for _, e := range c.Shipped.Evidence {
		printLines(w, "shipped", []string{e.String()})
	}

	for _, consequence := range c.Consequences {
		printLines(w, "node", []string{consequence.Shape + ": " + consequence.Text})
	}

	printLines(w, "you can", c.Choices)
	printLines(w, "note", c.Notes)
}

func printLines(w io.Writer, what string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "  %-9s %s\n", what, printable(line))
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}

	return printable(text)
}

// printable keeps what files and images say from moving the cursor or forging lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}

		return r
	}, text)
}

// printAnnotations prints GitHub workflow commands, which show beside the marker's line.
func printAnnotations(w io.Writer, report checkReport) error {
	levels := map[release.Verdict]string{
		release.InStep: "notice", release.MoveMarker: "warning", release.Conflict: "error", release.Unknown: "error",
	}

	var text strings.Builder

	for _, c := range report.Comparisons {
		message := c.Summary
		for _, choice := range c.Choices {
			message += "\nYou can: " + choice
		}

		annotate(&text, levels[c.Verdict], c, "cnibake: "+string(c.Verdict), message)

		for _, note := range c.Notes {
			annotate(&text, "notice", c, "cnibake: note", note)
		}
	}

	_, err := io.WriteString(w, text.String())

	return err
}

var (
	annotationData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	annotationProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func annotate(w io.Writer, level string, c release.Comparison, title, message string) {
	var properties []string

	if c.File != "" {
		properties = append(properties, "file="+annotationProperty.Replace(c.File))

		if c.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", c.Line))
		}
	}

	properties = append(properties, "title="+annotationProperty.Replace(title))

	fmt.Fprintf(w, "::%s %s::%s\n", level, strings.Join(properties, ","), annotationData.Replace(c.Source+": "+message))
}
