package release

import (
	"fmt"
	"regexp"
)

// Writers that this package has knowledge of.
const (
	Talos   = "talos"
	KubeOVN = "kube-ovn"
)

var writerPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Writers returns the names of the writers there is knowledge of.
func Writers() []string {
	return []string{KubeOVN, Talos}
}

// WithWriter decides whose release a statement is about: the source's own word, or else what the user
// asked for. Only a bare version without either is taken to be Talos's.
func (s Shipped) WithWriter(asked string) (Shipped, error) {
	switch {
	case asked != "" && s.Writer != "" && s.Writer != asked:
		return Shipped{}, fmt.Errorf("%s (%s) speaks of %s, not of %s: leave out --writer, or name another source", s.Source, s.Kind, s.Writer, asked)
	case asked != "" && s.Writer == "":
		s.Writer = asked
	case s.Writer == "" && s.Kind == "version":
		s.Writer = Talos
	case s.Writer == "":
		return Shipped{}, fmt.Errorf("%s (%s) does not tell whose it is: name the writer with --writer, such as --writer talos", s.Source, s.Kind)
	}

	return s, nil
}

// CheckWriter reports a writer's name that cannot be one.
func CheckWriter(name string) error {
	if !writerPattern.MatchString(name) {
		return fmt.Errorf("writer %q: use lower-case letters, digits and dashes, such as talos or kube-ovn", shorten(name))
	}

	return nil
}
