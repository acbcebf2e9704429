package builder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

// plan is a build that was found to make sense.
type plan struct {
	options Options
	targets []*Target
	// selections holds the plugins of each target, in the same order.
	selections [][]profiles.Plugin
	// sets are asked of the source one after the other, installers likewise.
	sets       map[setKey]*pluginSet
	installers map[string]*installerProgram
	// installer is nil when no target needs one.
	installer installer.Source
}

// setKey tells plugin sets apart. Targets share one where they can, so that everything of an
// architecture is compiled in one go.
type setKey struct {
	arch      string
	packaging profiles.Packaging
	// names and shared matter to a merged program only, which holds what was selected and no more.
	names, shared string
}

// pluginSet is a set of plugins for one architecture. ready is closed when it is there.
type pluginSet struct {
	ready     chan struct{}
	selection []profiles.Plugin
	set       *plugins.Set
}

// installerProgram is the installer for one architecture. ready is closed when it is there.
type installerProgram struct {
	ready   chan struct{}
	program installer.Program
}

// newPlan checks everything that can be checked before work begins.
func newPlan(options Options) (*plan, error) {
	if len(options.Profiles) == 0 {
		return nil, errors.New("no profile to build")
	}

	if err := profiles.ValidateArchitectures(options.Architectures); err != nil {
		return nil, err
	}

	p := &plan{options: options, sets: make(map[setKey]*pluginSet), installers: make(map[string]*installerProgram)}

	for i, profile := range options.Profiles {
		sameName := func(other profiles.Profile) bool { return other.Name == profile.Name }
		if slices.ContainsFunc(options.Profiles[:i], sameName) {
			return nil, fmt.Errorf("profile %s is given twice", profile.Name)
		}

		format, ok := options.Formats[profile.Format]
		if !ok {
			return nil, fmt.Errorf("profile %s: format %s cannot be built by this program", profile.Name, profile.Format)
		}

		profile.Packaging = packagingFor(options, profile)

		selection, err := selectPlugins(options, profile)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.Name, err)
		}

		architectures := profile.Architectures
		if len(options.Architectures) > 0 {
			architectures = options.Architectures
		}

		if err := profile.CheckArchitectures(architectures); err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.Name, err)
		}

		target := &Target{
			Profile: profile, Pin: options.Pin, Architectures: architectures, Created: options.Created, Packer: options.Packer,
		}
		target.payload = func(ctx context.Context, arch string) (*Payload, error) {
			return p.payload(ctx, target, selection, arch)
		}

		p.targets = append(p.targets, target)
		p.selections = append(p.selections, selection)

		for _, arch := range architectures {
			p.want(keyFor(target, selection, arch), selection)

			if format.NeedsInstaller() && p.installers[arch] == nil {
				p.installers[arch] = &installerProgram{ready: make(chan struct{})}
			}
		}
	}

	if len(p.installers) > 0 {
		var err error
		if p.installer, err = options.Installer(); err != nil {
			return nil, err
		}
	}

	return p, nil
}

// packagingFor is what was asked for, or else the profile's own as far as the source can do it.
func packagingFor(options Options, profile profiles.Profile) profiles.Packaging {
	if options.Packaging != "" {
		return options.Packaging
	}

	if _, merges := options.Source.(plugins.Merger); !merges && profile.Packaging == profiles.Multicall {
		options.Log.Info(fmt.Sprintf("%s: source %s has separate programs, so they are carried as such", profile.Name, options.Source.Kind()))

		return profiles.Separate
	}

	return profile.Packaging
}

// keyFor returns the set that a target takes its plugins from.
func keyFor(target *Target, selection []profiles.Plugin, arch string) setKey {
	key := setKey{arch: arch, packaging: target.Profile.Packaging}

	if key.packaging == profiles.Multicall {
		names := make([]string, len(selection))
		for i, plugin := range selection {
			names[i] = plugin.Name
		}

		key.names, key.shared = strings.Join(names, ","), target.Profile.SharedFile
	}

	return key
}

// want adds a selection to a set.
func (p *plan) want(key setKey, selection []profiles.Plugin) {
	if p.sets[key] == nil {
		p.sets[key] = &pluginSet{ready: make(chan struct{})}
	}

	all := slices.Concat(p.sets[key].selection, selection)
	slices.SortFunc(all, func(a, b profiles.Plugin) int { return strings.Compare(a.Name, b.Name) })

	p.sets[key].selection = slices.Compact(all)
}

// selectPlugins applies the profile's and then the user's selection to the pin's plugin set.
func selectPlugins(options Options, profile profiles.Profile) ([]profiles.Plugin, error) {
	with := slices.Concat(profile.Plugins.With, options.Plugins.With)
	without := slices.Clone(options.Plugins.Without)

	// What the user asks for by name wins over what the profile leaves out.
	for _, name := range profile.Plugins.Without {
		if !slices.Contains(options.Plugins.With, name) {
			without = append(without, name)
		}
	}

	d, err := distro.Lookup(profile.Distro)
	if err != nil {
		return nil, err
	}

	if profile.Overlap == profiles.Omit {
		for _, plugin := range options.Pin.Plugins {
			if d.Owns(plugin.Name) && !slices.Contains(options.Plugins.With, plugin.Name) {
				without = append(without, plugin.Name)
			}
		}
	}

	// A profile may ask for what the user then leaves out.
	with = slices.DeleteFunc(with, func(name string) bool {
		return slices.Contains(options.Plugins.Without, name) && !slices.Contains(options.Plugins.With, name)
	})

	return options.Pin.Select(with, without)
}
