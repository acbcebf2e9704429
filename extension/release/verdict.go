package release

import (
	"fmt"
	"slices"
)

// Verdict is the answer to "is our pin still in step with what this image ships?".
type Verdict string

const (
	// InStep: same version, and the marker names the release.
	InStep Verdict = "in-step"
	// MoveMarker: same version, but the marker names another release.
	MoveMarker Verdict = "move-marker"
	// Conflict: different versions.
	Conflict Verdict = "conflict"
	// Unknown: there is no evidence to decide by.
	Unknown Verdict = "unknown"
)

// verdicts from best to worst.
var verdicts = []Verdict{InStep, MoveMarker, Conflict, Unknown}

// Worst returns the worst of some verdicts, InStep if there is none.
func Worst(all ...Verdict) Verdict {
	worst := 0
	for _, v := range all {
		worst = max(worst, slices.Index(verdicts, v))
	}

	return verdicts[worst]
}

// Side is what one side of a comparison carries.
type Side struct {
	// Version of the plugins; empty when unknown.
	Version string `json:"version"`
	// Release of the writer: the marker's on our side.
	Release  string     `json:"release,omitempty"`
	Inferred bool       `json:"inferred,omitempty"`
	Evidence []Evidence `json:"evidence"`
}

// Consequence is what happens on a node that was made in one way.
type Consequence struct {
	Shape string `json:"shape"`
	Text  string `json:"text"`
}

// Comparison is one verdict and everything it rests on.
type Comparison struct {
	Verdict Verdict `json:"verdict"`
	// Source and Kind of the shipped side.
	Source string `json:"source"`
	Kind   string `json:"kind"`
	Writer string `json:"writer"`
	// Summary is the verdict as one sentence.
	Summary string `json:"summary"`
	Pin     Side   `json:"pin"`
	Shipped Side   `json:"shipped"`
	// Overlap are the names both carry.
	Overlap []string `json:"overlap"`
	// Newer is pin or shipped while the versions differ.
	Newer string `json:"newer,omitempty"`
	// Consequences and Choices are for a conflict; Choices also say how to resolve the other verdicts.
	Consequences []Consequence `json:"consequences,omitempty"`
	Choices      []string      `json:"choices,omitempty"`
	Notes        []string      `json:"notes,omitempty"`
	// File and Line of the marker, or of the pin where there is none; empty for the built-in pin.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Fixable reports whether the evidence allows to move the marker: equal versions, read and not inferred.
func (c Comparison) Fixable() error {
	switch {
	case c.Verdict != MoveMarker:
		return fmt.Errorf("the marker for %s stays: the verdict on %s is %s", c.Writer, c.Source, c.Verdict)
	case c.Shipped.Inferred:
		return fmt.Errorf("the marker for %s stays: what %s %s carries is inferred, not read: pass evidence, such as the SBOM of that release",
			c.Writer, c.Writer, c.Shipped.Release)
	default:
		return nil
	}
}
