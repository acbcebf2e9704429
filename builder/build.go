// Package builder conducts a build: profiles and plugins in, artifacts out.
package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

// Options say what to build, from what, and where to.
type Options struct {
	Pin      profiles.Pin
	Profiles []profiles.Profile
	// Architectures replaces each profile's own, when not empty.
	Architectures []string
	// Packaging replaces each profile's own, when not empty.
	Packaging profiles.Packaging
	// Plugins is applied on top of each profile's own selection.
	Plugins profiles.Selection

	Source plugins.Source
	// Installer is asked only when a profile's format needs it.
	Installer func() (installer.Source, error)
	Formats   map[profiles.Format]Format
	Packer    *oci.Packer

	// Out is the output directory. An earlier build's artifacts in it are replaced, other files stay.
	Out string
	// Created is the only time in the artifacts.
	Created time.Time
	// Builder is the version of cnibake, Toolchain that of the Go toolchain, for the report.
	Builder   string
	Toolchain func() string
	Log       *slog.Logger
}

// Build builds all profiles and returns what it built. On any error the output directory keeps what
// it had before.
func Build(ctx context.Context, options Options) (report *Report, err error) {
	plan, err := newPlan(options)
	if err != nil {
		return nil, err
	}

	out, err := openDirectory(options.Out)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, out.close()) }()

	outputs := make([]*Output, len(plan.targets))
	group, groupCtx := errgroup.WithContext(ctx)

	group.Go(func() error { return plan.produce(groupCtx, filepath.Join(out.staging, "work")) })

	for i, target := range plan.targets {
		outputs[i] = &Output{directory: out}

		group.Go(func() error {
			if err := plan.write(groupCtx, target, outputs[i]); err != nil {
				return fmt.Errorf("building %s: %w", target.Profile.Name, err)
			}

			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	if err := os.RemoveAll(filepath.Join(out.staging, "work")); err != nil {
		return nil, err
	}

	report = plan.report(outputs)

	return report, out.publish(report)
}

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

// produce makes the programs of one architecture after the other: a compiler uses every core by
// itself, and artifacts of the first architecture are packed meanwhile.
func (p *plan) produce(ctx context.Context, work string) error {
	keys := slices.SortedFunc(maps.Keys(p.sets), func(a, b setKey) int {
		return cmp.Or(cmp.Compare(a.arch, b.arch), cmp.Compare(a.packaging, b.packaging), cmp.Compare(a.names, b.names), cmp.Compare(a.shared, b.shared))
	})

	for i, key := range keys {
		if err := p.produceSet(ctx, key, filepath.Join(work, fmt.Sprintf("plugins-%d", i))); err != nil {
			return err
		}

		lastOfArch := i+1 == len(keys) || keys[i+1].arch != key.arch
		if lastOfArch && p.installers[key.arch] != nil {
			if err := p.produceInstaller(ctx, key.arch, filepath.Join(work, "installer-"+key.arch)); err != nil {
				return err
			}
		}
	}

	return nil
}

func (p *plan) produceSet(ctx context.Context, key setKey, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making work directory: %w", err)
	}

	wanted := p.sets[key]

	var err error
	if key.packaging == profiles.Multicall {
		wanted.set, err = plugins.CollectMerged(ctx, p.options.Source, p.options.Pin, key.arch, wanted.selection, key.shared, dir)
	} else {
		wanted.set, err = plugins.Collect(ctx, p.options.Source, p.options.Pin, key.arch, wanted.selection, dir)
	}

	if err != nil {
		return err
	}

	if wanted.set.Manifest.Unpinned {
		p.options.Log.Warn(fmt.Sprintf("the %s plugins are not tied to the sums of pin %s; build.json says so", key.arch, p.options.Pin.Version))
	}

	close(wanted.ready)

	return nil
}

func (p *plan) produceInstaller(ctx context.Context, arch, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making work directory: %w", err)
	}

	p.options.Log.Info("compiling the installer for " + arch)

	program, err := p.installer.Provide(ctx, arch, dir)
	if err != nil {
		return err
	}

	p.installers[arch].program = program
	close(p.installers[arch].ready)

	return nil
}

// wait waits for what another goroutine makes.
func wait(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// payload waits for the programs of an architecture and picks the target's.
func (p *plan) payload(ctx context.Context, target *Target, selection []profiles.Plugin, arch string) (*Payload, error) {
	source := p.sets[keyFor(target, selection, arch)]
	if err := wait(ctx, source.ready); err != nil {
		return nil, err
	}

	result := &Payload{Manifest: source.set.Manifest, Files: make(map[string]rootfs.Content)}
	result.Manifest.Plugins = nil

	for _, plugin := range selection {
		entry, ok := source.set.Manifest.Lookup(plugin.Name)
		if !ok {
			return nil, fmt.Errorf("plugin %s for %s is missing from source %s", plugin.Name, arch, p.options.Source.Kind())
		}

		file := source.set.Files[entry.File]
		result.Manifest.Plugins = append(result.Manifest.Plugins, entry)
		result.Files[entry.File] = rootfs.File(file.Path, file.Digest, file.Size)
	}

	if err := target.checkWindow(result); err != nil {
		return nil, err
	}

	format := p.options.Formats[target.Profile.Format]
	if format.NeedsInstaller() {
		if err := wait(ctx, p.installers[arch].ready); err != nil {
			return nil, err
		}

		result.Installer = &p.installers[arch].program
	}

	sbom, err := attest.SBOM(result.subject(target, format.SBOMName(target.Profile), source.set.Binaries))
	if err != nil {
		return nil, err
	}

	result.SBOM = sbom

	return result, nil
}

// write writes a target's artifacts and, beside them, its SBOMs.
func (p *plan) write(ctx context.Context, target *Target, out *Output) error {
	if err := p.options.Formats[target.Profile.Format].Write(ctx, target, out); err != nil {
		return err
	}

	for _, arch := range target.Architectures {
		payload, err := target.Payload(ctx, arch)
		if err != nil {
			return err
		}

		artifact := Artifact{Name: fmt.Sprintf("%s-%s.spdx.json", target.Profile.Name, arch), Kind: KindSBOM, Arch: arch}
		if err := out.File(ctx, artifact, writeBytes(payload.SBOM)); err != nil {
			return err
		}
	}

	p.options.Log.Info(target.Profile.Name + " is ready")

	return nil
}

// report describes the finished build.
func (p *plan) report(outputs []*Output) *Report {
	report := &Report{
		SchemaVersion: 1,
		Version:       p.options.Pin.PackagedVersion(),
		Pin:           payload.Pin{Version: p.options.Pin.Version, Module: p.options.Pin.Module.Path, Sum: p.options.Pin.Module.Sum},
		Builder:       p.options.Builder,
		Toolchain:     p.options.Toolchain(),
		Source:        p.options.Source.Kind(),
		Created:       p.options.Created.UTC(),
	}

	for i, target := range p.targets {
		profile := ProfileReport{
			Name:        target.Profile.Name,
			Format:      target.Profile.Format,
			Packaging:   target.Profile.Packaging,
			Compression: target.Profile.Compression,
			Artifacts:   outputs[i].artifacts,
		}

		slices.SortFunc(profile.Artifacts, func(a, b Artifact) int { return cmp.Compare(a.Name, b.Name) })

		for _, arch := range target.Architectures {
			set := p.sets[keyFor(target, p.selections[i], arch)].set
			report.Unpinned = report.Unpinned || set.Manifest.Unpinned
			described := PayloadReport{Arch: arch}

			for _, plugin := range p.selections[i] {
				entry, _ := set.Manifest.Lookup(plugin.Name)
				described.Plugins = append(described.Plugins, entry)
			}

			if p.options.Formats[target.Profile.Format].NeedsInstaller() {
				program := p.installers[arch].program
				described.Installer = &ProgramReport{Digest: program.Digest, Size: program.Size}
			}

			profile.Payloads = append(profile.Payloads, described)
		}

		report.Profiles = append(report.Profiles, profile)
	}

	return report
}
