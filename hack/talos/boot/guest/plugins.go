package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// scenario is one plugin at work.
type scenario struct {
	// plugin is the one the scenario is about; name tells two scenarios of one plugin apart.
	plugin, name string
	// plugins is the list of the network configuration.
	plugins      string
	capabilities map[string]any
	// prepare makes what must be on the host before; peer is a namespace outside, for whatever the
	// pod shall reach. works proves the plugin's work after ADD, gone that nothing is left after DEL.
	prepare func(peer *namespace) error
	works   func(a *attachment, peer *namespace) error
	gone    func(a *attachment) error
	// moves is set for a plugin that moves routes out of the main table, where the CHECK of the plugin
	// before it looks for them. Of such a list only the plugin's own CHECK can succeed.
	moves bool
	// tidy removes what prepare made in the host's namespace; the peer goes by itself.
	tidy func()
}

// commandTimeout is for one ADD, CHECK or DEL of a whole list under emulation.
const commandTimeout = time.Minute

// checkPlugins lets every plugin do its work. A plugin of the set without a scenario is a failure.
func checkPlugins(r *recorder, p plan.Plan) {
	shown := map[string]bool{}

	for _, s := range scenarios() {
		if !carries(p, s.plugin) {
			continue
		}

		shown[s.plugin] = true

		if err := play(r, p, s); err != nil {
			r.check("plugin", s.title(), func() error { return err })
		}
	}

	r.check("plugin", "every plugin has a scenario", func() error {
		var errs []error

		for _, plugin := range p.Plugins {
			if !shown[plugin.Name] {
				errs = append(errs, fmt.Errorf("none for %s", plugin.Name))
			}
		}

		return errors.Join(errs...)
	})
}

func (s scenario) title() string {
	if s.name == "" {
		return s.plugin
	}

	return s.plugin + " " + s.name
}

// play returns an error only where it does not come to the plugin at all.
func play(r *recorder, p plan.Plan, s scenario) error {
	peer, err := newNamespace("peer")
	if err != nil {
		return err
	}
	defer peer.close()

	if s.tidy != nil {
		defer s.tidy()
	}

	if s.prepare != nil {
		if err := s.prepare(peer); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}

	a, err := newAttachment(p, strings.ReplaceAll(s.title(), " ", "-"), s.plugins, s.capabilities)
	if err != nil {
		return err
	}
	defer a.close()

	added := r.check("plugin", s.title()+" ADD", within(a.add))
	if added {
		r.check("plugin", s.title()+" works", func() error { return s.works(a, peer) })

		check := a.check
		if s.moves {
			check = a.checkLast
		}

		r.check("plugin", s.title()+" CHECK", within(check))
	}

	deleted := r.check("plugin", s.title()+" DEL", within(a.del))
	if deleted && s.gone != nil {
		r.check("plugin", s.title()+" leaves nothing", func() error { return s.gone(a) })
	}

	return nil
}

func within(f func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
		defer cancel()

		return f(ctx)
	}
}
