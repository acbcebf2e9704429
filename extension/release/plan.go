package release

import "fmt"

// PlanMoves decides which markers the comparisons allow to move, and to which release: those of writers
// whose every comparison found equal versions and one and the same release. It returns why others stay.
func PlanMoves(all []Comparison) (moves map[string]string, stay []string) {
	moves = make(map[string]string)
	refused := make(map[string]bool)

	refuse := func(writer, format string, args ...any) {
		if !refused[writer] {
			stay = append(stay, fmt.Sprintf(format, args...))
		}

		refused[writer] = true

		delete(moves, writer)
	}

	for _, c := range all {
		target, planned := moves[c.Writer]

		switch {
		case refused[c.Writer] || c.Shipped.Release == "" && c.Verdict == InStep:
		case c.Verdict != InStep && c.Fixable() != nil:
			refuse(c.Writer, "%v", c.Fixable())
		case planned && target != c.Shipped.Release:
			refuse(c.Writer, "the marker for %s stays: %s and %s are shipped: name one release", c.Writer, target, c.Shipped.Release)
		default:
			moves[c.Writer] = c.Shipped.Release
		}
	}

	for _, c := range all {
		if moves[c.Writer] == c.Pin.Release {
			delete(moves, c.Writer)
		}
	}

	return moves, stay
}
