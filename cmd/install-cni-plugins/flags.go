package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
	"github.com/cnibake/cnibake/profiles/distro"
)

// boolFlag is a yes or no that flags and environment read alike.
type boolFlag struct{ to *bool }

func (b boolFlag) String() string   { return "" }
func (b boolFlag) IsBoolFlag() bool { return true }

func (b boolFlag) Set(s string) (err error) {
	*b.to, err = parseBool(s)

	return err
}

// namesFlag is a list of plugin names; given twice, the lists add up.
type namesFlag struct{ to *[]string }

func (n namesFlag) String() string { return "" }

func (n namesFlag) Set(s string) error {
	names, err := parseNames(s)
	*n.to = append(*n.to, names...)

	return err
}

type distroFlag struct{ to *distro.Distro }

func (d distroFlag) String() string { return "" }

func (d distroFlag) Set(s string) (err error) {
	*d.to, err = distro.Lookup(s)

	return err
}

type updateFlag struct{ to *stage.Update }

func (u updateFlag) String() string { return "" }

func (u updateFlag) Set(s string) (err error) {
	*u.to, err = stage.ParseUpdate(s)

	return err
}

// outputFlag is the form of the results: text for people, json for programs.
type outputFlag struct{ json *bool }

func (o outputFlag) String() string { return "" }

func (o outputFlag) Set(s string) error {
	switch s {
	case "text", "json":
		*o.json = s == "json"

		return nil
	default:
		return fmt.Errorf("unknown output %q: known are text, json", s)
	}
}

// common are the flags that several commands have.
type common struct {
	source, dest, state string
	selection           stage.Selection
	distro              distro.Distro
	json                bool
}

func newFlags(verb string) *flag.FlagSet {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error that Parse returns says all of it
	flags.Usage = func() {}

	return flags
}

func (c *common) add(flags *flag.FlagSet) {
	c.addPlaces(flags)
	flags.Var(outputFlag{&c.json}, "o", "")
	flags.Var(outputFlag{&c.json}, "output", "")
}

func (c *common) addPlaces(flags *flag.FlagSet) {
	flags.StringVar(&c.source, "source", "/cni-plugins", "")
	flags.StringVar(&c.dest, "dest", "/host/opt/cni/bin", "")
	flags.Var(namesFlag{&c.selection.Only}, "only", "")
	flags.Var(namesFlag{&c.selection.Skip}, "skip", "")
}

func (c *common) addState(flags *flag.FlagSet) {
	flags.StringVar(&c.state, "state-dir", "/var/lib/cni-plugins", "")
}

func (c *common) addDistro(flags *flag.FlagSet) {
	flags.Var(distroFlag{&c.distro}, "distro", "")
}

func addBool(flags *flag.FlagSet, to *bool, name string) {
	flags.Var(boolFlag{to}, name, "")
}

// parse reads the flags, and SKIP_CNI_BINARIES, which adds to what is skipped.
func (c *common) parse(env environment, flags *flag.FlagSet, args []string) error {
	if err := env.parse(flags, args); err != nil {
		return err
	}

	if value, ok := env[envSkip]; ok {
		names, err := parseNames(value)
		if err != nil {
			return usagef("%s: %w", envSkip, err)
		}

		c.selection.Skip = append(c.selection.Skip, names...)
	}

	for _, path := range []struct{ flag, value string }{{"source", c.source}, {"dest", c.dest}} {
		if path.value == "" {
			return usagef("--%s is empty", path.flag)
		}
	}

	return nil
}
