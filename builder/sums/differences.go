package sums

import (
	"errors"
	"slices"
	"strings"
)

// Differences collects what is not as the sums say.
type Differences struct{ texts []string }

// Missing notes a file that is listed and not there.
func (d *Differences) Missing(name string) { d.texts = append(d.texts, name+" is missing") }

// Altered notes a file that has another sum.
func (d *Differences) Altered(name string) { d.texts = append(d.texts, name+" was altered") }

// Extra notes a file that is not listed.
func (d *Differences) Extra(name string) { d.texts = append(d.texts, name+" is not expected") }

// Err names all of them, sorted; it is nil when there are none.
func (d *Differences) Err() error {
	if len(d.texts) == 0 {
		return nil
	}

	slices.Sort(d.texts)

	return errors.New(strings.Join(slices.Compact(d.texts), ", "))
}
