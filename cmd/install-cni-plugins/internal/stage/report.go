package stage

import (
	"slices"
	"strings"
)

// Action is what happened to a plugin.
type Action string

// The actions of a report.
const (
	Installed Action = "installed"
	Replaced  Action = "replaced"
	Unchanged Action = "unchanged"
	Left      Action = "left"
	Skipped   Action = "skipped"
	Removed   Action = "removed"
	Restored  Action = "restored"
	Failed    Action = "failed"
)

// Result is what happened to one plugin.
type Result struct {
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Old is what had the name before: a digest, or "symlink:" and the link's target. New is the
	// digest that has it now.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Reason says why, where the action alone does not.
	Reason string `json:"reason,omitempty"`
	// Foreign is set where the file that was found is not known to be ours.
	Foreign bool `json:"foreign,omitempty"`

	// changed says that the directory was changed, or would be: also where a later step failed.
	changed bool
}

// Changes reports whether the directory was changed for this plugin, or would be.
func (r Result) Changes() bool {
	return r.changed
}

// Report is the outcome of an operation that writes.
type Report struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"`
	Source        string `json:"source,omitempty"`
	Dest          string `json:"dest"`
	// Pin is the payload's upstream version; empty where the source has no manifest.
	Pin string `json:"pin,omitempty"`
	// Verified says that the payload was held to its manifest.
	Verified bool `json:"verified"`
	DryRun   bool `json:"dryRun"`
	// Changed says whether the directory was changed, or would be without DryRun.
	Changed bool     `json:"changed"`
	Plugins []Result `json:"plugins"`
	// Failed are the names that could not be staged, sorted.
	Failed []string `json:"failed"`
	// Errors are failures that belong to no single name.
	Errors []string `json:"errors"`
	// SkippedStaging says why nothing was staged where that is no failure.
	SkippedStaging string `json:"skippedStaging,omitempty"`
	// Notes are worth knowing and no failure.
	Notes []string `json:"notes"`
}

func newReport(operation string) *Report {
	return &Report{
		SchemaVersion: 1, Operation: operation,
		Plugins: []Result{}, Failed: []string{}, Errors: []string{}, Notes: []string{},
	}
}

// Good reports whether nothing failed.
func (r *Report) Good() bool {
	return len(r.Failed) == 0 && len(r.Errors) == 0
}

func (r *Report) note(text string) {
	r.Notes = append(r.Notes, text)
}

// finish sorts the results and derives the fields that follow from them.
func (r *Report) finish() {
	slices.SortStableFunc(r.Plugins, func(a, b Result) int { return strings.Compare(a.Name, b.Name) })

	for _, p := range r.Plugins {
		if p.Action == Failed {
			r.Failed = append(r.Failed, p.Name)
		}

		r.Changed = r.Changed || p.changed
	}
}
