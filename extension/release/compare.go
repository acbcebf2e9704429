package release

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/cnibake/cnibake/profiles"
)

// FromMarkers returns, for each marker of the pin, the statement that its release is what is shipped: what
// is compared when nothing else is named.
func FromMarkers(p Pinned) []Shipped {
	var all []Shipped

	for _, m := range p.Markers {
		all = append(all, Shipped{
			Source: m.Writer + " " + m.Release, Kind: "marker", Writer: m.Writer, Release: m.Release,
			Evidence: []Evidence{{"release " + m.Release, "the marker itself"}},
		})
	}

	return all
}

// Compare decides over the evidence of both sides. shipped.Writer must be set.
func Compare(pinned Pinned, shipped Shipped) (Comparison, error) {
	table, err := LoadTable(shipped.Writer)
	if err != nil {
		return Comparison{}, err
	}

	all, err := loadWriters()
	if err != nil {
		return Comparison{}, err
	}

	facts, known := all[shipped.Writer]
	if !known {
		facts = writerFacts{Title: shipped.Writer}
	}

	c := &comparer{pinned: pinned, shipped: shipped, table: table, facts: facts}

	return c.compare()
}

type comparer struct {
	pinned  Pinned
	shipped Shipped
	table   Table
	facts   writerFacts
	c       Comparison
}

func (r *comparer) compare() (Comparison, error) {
	marker, hasMarker := r.pinned.Marker(r.shipped.Writer)

	r.c = Comparison{Source: r.shipped.Source, Kind: r.shipped.Kind, Writer: r.shipped.Writer, Notes: slices.Clone(r.shipped.Notes)}
	r.fillPin(marker, hasMarker)

	if err := r.fillShipped(); err != nil {
		return Comparison{}, err
	}

	if err := r.fillOverlap(); err != nil {
		return Comparison{}, err
	}

	switch {
	case r.c.Shipped.Version == "":
		r.unknown()
	case semver.Compare(r.c.Pin.Version, r.c.Shipped.Version) != 0:
		r.conflict()
	case !hasMarker:
		r.c.Verdict = Unknown
		r.c.Summary = fmt.Sprintf("%s and the pin both carry %s, but %s has no marker for %s", r.who(), r.c.Pin.Version, r.pinned.File, r.shipped.Writer)
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("add the comment \"# %s-cni-plugins-checked-against: %s\"", r.shipped.Writer, orPlaceholder(r.shipped.Release)))
	case r.shipped.Release == "":
		r.c.Verdict = InStep
		r.c.Summary = fmt.Sprintf("both carry %s", r.c.Pin.Version)
		r.note("%s, so the marker was not compared", r.shipped.Why)
	case semver.Compare(marker.Release, r.shipped.Release) != 0:
		r.c.Verdict = MoveMarker
		r.c.Summary = fmt.Sprintf("%s still carries %s, but the pin was last compared with %s", r.who(), r.c.Pin.Version, marker.Release)
		r.c.Choices = append(r.c.Choices, r.moveChoice())
	default:
		r.c.Verdict = InStep
		r.c.Summary = fmt.Sprintf("%s carries %s, as the pin does", r.who(), r.c.Pin.Version)
	}

	return r.c, r.notes()
}

func (r *comparer) moveChoice() string {
	if r.pinned.BuiltIn {
		return fmt.Sprintf("move the marker for %s to %s in profiles/pins/%s.yaml", r.shipped.Writer, r.shipped.Release, r.pinned.Version)
	}

	return fmt.Sprintf("move the marker for %s in line %d of %s to %s, or let --fix do it", r.shipped.Writer, r.c.Line, r.pinned.File, r.shipped.Release)
}

// who names the shipped side in a sentence.
func (r *comparer) who() string {
	if r.shipped.Release == "" {
		return r.shipped.Source
	}

	return r.facts.Title + " " + r.shipped.Release
}

func orPlaceholder(release string) string {
	if release == "" {
		return "RELEASE"
	}

	return release
}

func (r *comparer) fillPin(marker Marker, hasMarker bool) {
	from := r.pinned.File
	if r.pinned.Line > 0 {
		from = fmt.Sprintf("%s line %d", r.pinned.File, r.pinned.Line)
	}

	r.c.Pin = Side{Version: r.pinned.Version, Evidence: []Evidence{{"plugins " + r.pinned.Version, from}}}

	if !r.pinned.BuiltIn {
		r.c.File, r.c.Line = r.pinned.File, r.pinned.Line
	}

	if !hasMarker {
		return
	}

	r.c.Pin.Release = marker.Release

	from = r.pinned.File
	if marker.Line > 0 {
		from = fmt.Sprintf("%s line %d", r.pinned.File, marker.Line)
		r.c.Line = marker.Line
	}

	r.c.Pin.Evidence = append(r.c.Pin.Evidence, Evidence{"last compared with " + r.shipped.Writer + " " + marker.Release, from})
}

// fillShipped takes the version that the source itself states, or looks the release up.
func (r *comparer) fillShipped() error {
	r.c.Shipped = Side{Version: r.shipped.Plugins, Release: r.shipped.Release, Evidence: slices.Clone(r.shipped.Evidence)}

	row, ok := r.table.Lookup(r.shipped.Release)
	if !ok {
		return nil
	}

	if r.shipped.Plugins != "" {
		// The source's own word stands; that the table says otherwise is worth knowing.
		if row.Plugins != r.shipped.Plugins && !row.Inferred {
			r.note("the table (refreshed %s) says that %s %s carries %s, the source says %s: the source counts",
				r.table.Refreshed, r.facts.Title, r.shipped.Release, row.Plugins, r.shipped.Plugins)
		}

		return nil
	}

	r.c.Shipped.Version, r.c.Shipped.Inferred = row.Plugins, row.Inferred

	sentence := strings.NewReplacer("{origin}", row.Origin, "{plugins}", row.Plugins).Replace(r.facts.Sentence)
	from := fmt.Sprintf("table of %s releases, refreshed %s: %s", r.facts.Title, r.table.Refreshed, sentence)

	if row.Inferred {
		from = fmt.Sprintf("table of %s releases, refreshed %s: inferred, that commit was not at hand", r.facts.Title, r.table.Refreshed)
		r.note("what %s %s carries is inferred; its SBOM (talos.spdx.json) is evidence", r.facts.Title, r.shipped.Release)
	}

	r.c.Shipped.Evidence = append(r.c.Shipped.Evidence, Evidence{"plugins " + row.Plugins, from})

	return nil
}

// fillOverlap intersects what the writer ships with what the pin carries.
func (r *comparer) fillOverlap() error {
	carried, err := r.carried()
	if err != nil {
		return err
	}

	r.c.Overlap = []string{}

	for _, name := range r.facts.Names {
		if slices.Contains(carried, name) {
			r.c.Overlap = append(r.c.Overlap, name)
		}
	}

	return nil
}

// carried returns the pin's plugin names. A file that is not a pin of ours does not list them; then the
// built-in pin's stand in.
func (r *comparer) carried() ([]string, error) {
	if r.pinned.Plugins != nil {
		return r.pinned.Plugins, nil
	}

	version := profiles.DefaultPin
	if slices.Contains(profiles.Pins(), r.pinned.Version) {
		version = r.pinned.Version
	}

	pin, err := profiles.LoadPin(version)
	if err != nil {
		return nil, err
	}

	return FromPin(pin).Plugins, nil
}

func (r *comparer) unknown() {
	r.c.Verdict = Unknown

	switch {
	case r.shipped.Release == "":
		r.c.Summary = "no release and no plugin version: " + r.shipped.Why
	case len(r.table.Rows) == 0:
		r.c.Summary = fmt.Sprintf("nothing is known of the releases of %s", r.facts.Title)
	default:
		r.c.Summary = fmt.Sprintf("%s %s is not in the table (refreshed %s, newest %s)", r.facts.Title, r.shipped.Release, r.table.Refreshed, r.table.Newest())
	}

	if r.shipped.Image != "" && r.shipped.Writer == Talos {
		r.c.Choices = append(r.c.Choices, "pass --pull to read the image itself")
	}

	switch {
	case r.facts.Find == "":
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("find the version of containernetworking/plugins that %s installs, and pass a file with CNI_PLUGINS_VERSION", r.facts.Title))
	case r.shipped.Release == "":
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("pass the release of %s with --shipped", r.facts.Title))
	default:
		r.c.Choices = append(r.c.Choices, strings.ReplaceAll(r.facts.Find, "{release}", r.shipped.Release))
	}
}

func (r *comparer) conflict() {
	ours, theirs := r.c.Pin.Version, r.c.Shipped.Version

	r.c.Verdict = Conflict
	r.c.Newer = "pin"

	if semver.Compare(ours, theirs) < 0 {
		r.c.Newer = "shipped"
	}

	if len(r.c.Overlap) == 0 {
		r.c.Summary = fmt.Sprintf("%s carries %s, the pin %s; no name is known that both carry", r.who(), theirs, ours)
	} else {
		r.c.Summary = fmt.Sprintf("%s carries %s, the pin %s (%s is newer); both carry %s", r.who(), theirs, ours, map[string]string{"pin": "the pin", "shipped": r.facts.Title}[r.c.Newer], join(r.c.Overlap))
	}

	fill := strings.NewReplacer("{names}", join(r.c.Overlap), "{names,}", strings.Join(r.c.Overlap, ","), "{ours}", ours, "{theirs}", theirs)

	for _, s := range r.facts.Shapes {
		r.c.Consequences = append(r.c.Consequences, Consequence{s.Shape, fill.Replace(s.Differ)})
	}

	if slices.Contains(profiles.Pins(), theirs) {
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("build from the pin %s: cnibake build --pin %s", theirs, theirs))
	} else {
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("move the pin to %s: hack/pin %s", theirs, theirs))
	}

	if same := r.table.Carrying(ours); len(same) > 0 {
		r.c.Choices = append(r.c.Choices, fmt.Sprintf("take a release of %s that carries %s: %s", r.facts.Title, ours, join(same)))
	}

	if r.facts.LeaveOut != "" && len(r.c.Overlap) > 0 {
		r.c.Choices = append(r.c.Choices, fill.Replace(r.facts.LeaveOut))
	}
}

// notes adds what is worth knowing whatever the verdict.
func (r *comparer) notes() error {
	carried, err := r.carried()
	if err != nil {
		return err
	}

	for _, side := range []struct {
		who, version string
		names        []string
	}{
		{"the pin", r.c.Pin.Version, carried},
		{r.who(), r.c.Shipped.Version, r.facts.Names},
	} {
		if side.version == "" {
			continue
		}

		bad, err := Vulnerabilities(side.version, side.names)
		if err != nil {
			return err
		}

		for _, v := range bad {
			r.note("%s carries %s %s, which has %s (%s); %s is free of it", side.who, v.Plugin, side.version, v.ID, v.Summary, v.Fixed)
		}
	}

	return nil
}

func (r *comparer) note(format string, args ...any) {
	r.c.Notes = append(r.c.Notes, fmt.Sprintf(format, args...))
}
