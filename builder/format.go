package builder

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/profiles"
)

// Format writes the artifacts of one profile.
type Format interface {
	// NeedsInstaller says whether artifacts of the format carry install-cni-plugins.
	NeedsInstaller() bool
	// SBOMName is the name of the SPDX package that describes the profile's artifacts.
	SBOMName(profile profiles.Profile) string
	// Write writes the artifacts for all architectures of the target.
	Write(ctx context.Context, target *Target, out *Output) error
}

// Target is one profile that is being built.
type Target struct {
	Profile       profiles.Profile
	Pin           profiles.Pin
	Architectures []string
	// Created is the only time in the artifacts.
	Created time.Time
	Packer  *oci.Packer

	payload func(ctx context.Context, arch string) (*Payload, error)
}

// Payload returns what goes into the artifacts of an architecture, as soon as it is there.
func (t *Target) Payload(ctx context.Context, arch string) (*Payload, error) {
	return t.payload(ctx, arch)
}

// Compression of the target's layers.
func (t *Target) Compression() oci.Compression {
	return oci.Compression(t.Profile.Compression)
}

// Layer packs a tree as the target's profile says.
func (t *Target) Layer(ctx context.Context, tree *rootfs.Tree) (*oci.Layer, error) {
	if t.Profile.Packaging == profiles.Multicall {
		return t.Packer.Layer(ctx, tree, t.Created, t.Compression(), oci.WithWindow(mergedWindow))
	}

	return t.Packer.Layer(ctx, tree, t.Created, t.Compression())
}

// mergedWindow is how far back zstd looks in a layer of identical copies: past one whole copy, and no
// further, since a decoder needs as much memory.
const mergedWindow = 8 << 20

// checkWindow refuses a merged program that is too large for the window: every copy would then be
// stored in full.
func (t *Target) checkWindow(p *Payload) error {
	if t.Profile.Packaging != profiles.Multicall || t.Profile.SharedFile != "" || t.Compression() != oci.Zstd {
		return nil
	}

	const headers = 4096 // between two copies lie a tar header and padding

	for _, plugin := range p.Manifest.Plugins {
		if plugin.Size+headers > mergedWindow {
			return fmt.Errorf("the merged program has %d bytes, more than the compression window of %d: its copies would not be stored once", plugin.Size, mergedWindow)
		}
	}

	return nil
}

// Annotations describe the target in OCI's terms.
func (t *Target) Annotations(title string) map[string]string {
	const prefix = "org.opencontainers.image."

	return map[string]string{
		prefix + "title":       title,
		prefix + "description": t.Profile.Description,
		prefix + "version":     t.Pin.PackagedVersion(),
		prefix + "source":      "https://github.com/cnibake/cnibake",
		prefix + "licenses":    "Apache-2.0",
		prefix + "created":     t.Created.UTC().Format(time.RFC3339),
	}
}

// Payload is what goes into an artifact for one architecture.
type Payload struct {
	Manifest payload.Manifest
	// Files maps the manifest's file names to their content.
	Files map[string]rootfs.Content
	// SBOM is the SPDX document of the artifact.
	SBOM []byte
	// Installer is nil for formats that do not carry it.
	Installer *installer.Program

	// binaries maps each plugin's name to its build info.
	binaries map[string]payload.Binary
}

// Tree returns the files of the payload where the profile wants them: plugins, manifest, licence,
// SBOM and, where the profile has a place for it, the installer. Paths lie below prefix, which is
// empty or a clean relative directory.
func (p *Payload) Tree(profile profiles.Profile, prefix, sbomName string) (*rootfs.Tree, error) {
	manifest, err := p.Manifest.Encode()
	if err != nil {
		return nil, err
	}

	manifestPath := profile.Manifest
	if manifestPath == "" {
		manifestPath = path.Join(profile.PluginDir, payload.ManifestName)
	}

	tree := &rootfs.Tree{}
	place := func(name string) string { return strings.TrimPrefix(path.Join(prefix, name), "/") }

	placed := make(map[string]bool)

	for _, plugin := range p.Manifest.Plugins {
		content, ok := p.Files[plugin.File]
		if !ok {
			return nil, fmt.Errorf("plugin %s: file %s is missing from the payload", plugin.Name, plugin.File)
		}

		if placed[plugin.File] {
			continue // several names share it
		}

		placed[plugin.File] = true

		if err := tree.Add(place(path.Join(profile.PluginDir, plugin.File)), 0o755, content); err != nil {
			return nil, err
		}
	}

	if err := tree.Add(place(manifestPath), 0o644, rootfs.Bytes(manifest)); err != nil {
		return nil, err
	}

	if err := tree.Add(place(path.Join(profile.LicenseDir, "LICENSE")), 0o644, rootfs.Bytes(profiles.License)); err != nil {
		return nil, err
	}

	if err := tree.Add(place(path.Join(profile.SBOMDir, sbomName+".spdx.json")), 0o644, rootfs.Bytes(p.SBOM)); err != nil {
		return nil, err
	}

	if p.Installer != nil && profile.Installer != "" {
		content := rootfs.File(p.Installer.Path, p.Installer.Digest, p.Installer.Size)
		if err := tree.Add(place(profile.Installer), 0o755, content); err != nil {
			return nil, err
		}
	}

	return tree, nil
}

// subject describes the payload for the SBOM.
func (p *Payload) subject(target *Target, name string, binaries map[string]payload.Binary) attest.Subject {
	subject := attest.Subject{
		Name:     name,
		Version:  target.Pin.PackagedVersion(),
		Profile:  target.Profile.Name,
		Manifest: p.Manifest,
		Binaries: binaries,
		Created:  target.Created,
	}

	if target.Profile.Extension != nil {
		subject.ModulePrefix = name + "/"
	}

	if p.Installer != nil {
		subject.Installer = &attest.Program{Name: installer.Name, Digest: p.Installer.Digest, Binary: p.Installer.Binary}
	}

	return subject
}
