package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/watch"
)

type intervalFlag struct{ to *time.Duration }

func (i intervalFlag) String() string { return "" }

func (i intervalFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 5m or 1h", s)
	}

	if d < watch.MinInterval || d > watch.MaxInterval {
		return fmt.Errorf("%q is not between %s and %s", s, watch.MinInterval, watch.MaxInterval)
	}

	*i.to = d

	return nil
}

type listenFlag struct{ to *watch.Address }

func (l listenFlag) String() string { return "" }

func (l listenFlag) Set(s string) (err error) {
	*l.to, err = watch.ParseAddress(s)

	return err
}

func runWatch(ctx context.Context, env environment, args []string, out io.Writer) error {
	var c common

	o := watch.Options{Interval: watch.DefaultInterval, Version: programVersion(), Log: out}

	if err := (listenFlag{&o.Listen}).Set(watch.DefaultListen); err != nil {
		return err
	}

	flags := newFlags("watch")
	c.addPlaces(flags)
	c.addState(flags)
	c.addDistro(flags)
	flags.Var(intervalFlag{&o.Interval}, "interval", "")
	flags.Var(listenFlag{&o.Listen}, "listen", "")
	addBool(flags, &o.RestoreAltered, "restore-altered")

	if err := c.parse(env, flags, args); err != nil {
		return err
	}

	o.Source, o.Dest, o.StateDir = c.source, c.dest, c.state
	o.Selection, o.Distro = c.selection, c.distro

	watch.Run(ctx, o)

	return nil
}
