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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/profiles"
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
	// Toolchain is the version of the Go toolchain that was used, for the report.
	Toolchain func() string
	// Version is that of this program, for the provenance.
	Version string
	Log     *slog.Logger
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

	p.options.Log.Info("preparing the installer for " + arch)

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

	result.SBOM, result.binaries = sbom, source.set.Binaries

	return result, nil
}

// write writes a target's artifacts and, beside them, its provenance and its SBOMs.
func (p *plan) write(ctx context.Context, target *Target, out *Output) error {
	if err := p.options.Formats[target.Profile.Format].Write(ctx, target, out); err != nil {
		return err
	}

	provenance, err := p.provenance(ctx, target, out)
	if err != nil {
		return err
	}

	artifact := Artifact{Name: ProvenanceName(target.Profile.Name), Kind: KindProvenance}
	if err := out.File(ctx, artifact, writeBytes(provenance)); err != nil {
		return err
	}

	for _, arch := range target.Architectures {
		payload, err := target.Payload(ctx, arch)
		if err != nil {
			return err
		}

		artifact := Artifact{Name: SBOMName(target.Profile.Name, arch), Kind: KindSBOM, Arch: arch}
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
		Toolchain:     p.options.Toolchain(),
		Source:        p.options.Source.Kind(),
		Created:       p.options.Created.UTC(),
	}

	for i, target := range p.targets {
		profile := ProfileReport{
			Name:        target.Profile.Name,
			Image:       target.Profile.Image,
			Format:      target.Profile.Format,
			Packaging:   target.Profile.Packaging,
			Compression: target.Profile.Compression,
			Artifacts:   outputs[i].artifacts,
		}

		sortArtifacts(profile.Artifacts)

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
