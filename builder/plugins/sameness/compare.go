package sameness

import (
	"fmt"
	"strings"
)

// Compare returns the differences between two plays of a case, each with its place; none when the
// plays are the same but for what is random.
func Compare(first, second []Record) []string {
	a, b := transcribe(first), transcribe(second)

	var differences []string

	if len(a) != len(b) {
		differences = append(differences, fmt.Sprintf("%d parts against %d", len(a), len(b)))
	}

	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			differences = append(differences, fmt.Sprintf("%s:\n%s", a[i].title, difference(a[i].text, b[i].text)))
		}
	}

	return differences
}

// part is a piece of a play that is compared as a whole.
type part struct{ title, text string }

// transcribe turns a play into text in which random values have become their order of appearance.
func transcribe(records []Record) []part {
	var given strings.Builder
	for _, record := range records {
		fmt.Fprintln(&given, record.Call.Config, record.Call.Env)
	}

	var (
		parts      []part
		normaliser = newNormaliser(given.String())
	)

	for _, record := range records {
		title := record.Call.Label()
		answer := fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", record.Answer.Exit, record.Answer.Stdout, record.Answer.Stderr)
		parts = append(parts, part{title, normaliser.text(answer)})

		for _, seen := range record.Seen {
			text := normaliser.text(seen.Text)
			if seen.Unordered {
				text = sortLines(text)
			}

			parts = append(parts, part{title + ", then " + seen.What, text})
		}
	}

	return parts
}

// difference shows the lines that only one of two texts has.
func difference(first, second string) string {
	a, b := strings.Split(first, "\n"), strings.Split(second, "\n")

	var out []string

	for _, side := range []struct {
		sign         string
		these, those []string
	}{{"-", a, b}, {"+", b, a}} {
		left := make(map[string]int)
		for _, line := range side.those {
			left[line]++
		}

		for _, line := range side.these {
			if left[line]--; left[line] < 0 {
				out = append(out, side.sign+" "+line)
			}
		}
	}

	if len(out) == 0 {
		return "the same lines in another order"
	}

	const most = 20
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more lines", len(out)-most))
	}

	return strings.Join(out, "\n")
}
