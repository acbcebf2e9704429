// Package attest states what is in an artifact, for programs that check it.
package attest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/cnibake/cnibake/builder/payload"
)

// Subject is what an SBOM describes: a plugin set and, where the artifact carries one, the installer.
type Subject struct {
	// Name of the artifact's SPDX package. On a Talos node it is a resource ID, so it must not be
	// one that Talos uses itself ("cni").
	Name string
	// Version is the packaged version, for example v1.9.1-1.
	Version string
	// ModulePrefix goes before the names of the Go modules' packages. On a Talos node every package name
	// is a resource ID: a module that Talos lists itself would take the place of Talos's own entry.
	ModulePrefix string
	// Profile and Manifest make the document's namespace unique.
	Profile  string
	Manifest payload.Manifest
	// Binaries maps each plugin's name to its build info.
	Binaries map[string]payload.Binary
	// Installer is nil when the artifact has none.
	Installer *Program
	// Created is the only time in the document.
	Created time.Time
}

// Program is a program beside the plugins.
type Program struct {
	Name   string
	Digest string
	Binary payload.Binary
}

const (
	noAssertion = "NOASSERTION"
	apache      = "Apache-2.0"

	// talosName is the name under which a Talos node lists its own plugins.
	talosName = "cni"
)

// SBOM returns an SPDX 2.3 JSON document made from the binaries' own build info: a package for the
// artifact, one for each program, one for each Go module linked into any of them, with its sum. The
// same subject always gives the same bytes.
func SBOM(subject Subject) ([]byte, error) {
	if subject.Name == talosName {
		return nil, fmt.Errorf("an SBOM package named %q would hide Talos's own on the node: choose another name", talosName)
	}

	manifest, err := subject.Manifest.Encode()
	if err != nil {
		return nil, err
	}

	d := payload.NewDigester()
	fmt.Fprintf(d, "%s\n%s\n%s\n%s", subject.Name, subject.Version, subject.Profile, manifest)

	if subject.Installer != nil {
		fmt.Fprintf(d, "\n%s %s", subject.Installer.Name, subject.Installer.Digest)
	}

	b := &sbom{
		prefix:  subject.ModulePrefix,
		modules: make(map[string]common.ElementID),
		taken:   make(map[common.ElementID]bool),
		document: spdx.Document{
			SPDXVersion:    spdx.Version,
			DataLicense:    spdx.DataLicense,
			SPDXIdentifier: "DOCUMENT",
			DocumentName:   fmt.Sprintf("%s-%s-%s", subject.Name, subject.Version, subject.Manifest.Arch),
			DocumentNamespace: fmt.Sprintf("https://github.com/cnibake/cnibake/spdx/%s/%s/%s",
				subject.Profile, subject.Manifest.Arch, strings.TrimPrefix(d.Digest(), "sha256:")),
			CreationInfo: &spdx.CreationInfo{
				Created:  subject.Created.UTC().Format(time.RFC3339),
				Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "cnibake"}},
			},
		},
	}

	root := b.add(spdx.Package{
		PackageName:             subject.Name,
		PackageSPDXIdentifier:   b.identifier("artifact", subject.Name),
		PackageVersion:          subject.Version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseDeclared:  apache,
		PrimaryPackagePurpose:   "ARCHIVE",
	})
	b.relate("DOCUMENT", common.TypeRelationshipDescribe, root)

	for _, plugin := range subject.Manifest.Plugins {
		err := b.addProgram(root, program{
			name: sbomPlugin + plugin.Name, file: plugin.File, version: plugin.Version, digest: plugin.Digest,
			binary: subject.Binaries[plugin.Name],
		})
		if err != nil {
			return nil, fmt.Errorf("describing %s: %w", plugin.Name, err)
		}
	}

	if p := subject.Installer; p != nil {
		version := p.Binary.Module().Version
		if version == "" {
			version = noAssertion
		}

		if err := b.addProgram(root, program{name: p.Name, file: p.Name, version: version, digest: p.Digest, binary: p.Binary}); err != nil {
			return nil, fmt.Errorf("describing %s: %w", p.Name, err)
		}
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	if err := encoder.Encode(b.document); err != nil {
		return nil, fmt.Errorf("encoding SBOM: %w", err)
	}

	return out.Bytes(), nil
}

type sbom struct {
	document spdx.Document
	prefix   string
	// modules maps the modules that are there already to their identifiers.
	modules map[string]common.ElementID
	// taken holds every identifier in use.
	taken map[common.ElementID]bool
}

type program struct {
	name, file, version, digest string
	binary                      payload.Binary
}

// addProgram adds a program and the Go modules linked into it.
func (b *sbom) addProgram(root common.ElementID, p program) error {
	pkg := spdx.Package{
		PackageName:             p.name,
		PackageSPDXIdentifier:   b.identifier("program", p.name),
		PackageVersion:          p.version,
		PackageFileName:         p.file,
		PackageDownloadLocation: noAssertion,
		PackageLicenseDeclared:  apache,
		PackageChecksums:        []spdx.Checksum{{Algorithm: spdx.SHA256, Value: strings.TrimPrefix(p.digest, "sha256:")}},
		PrimaryPackagePurpose:   "APPLICATION",
	}

	info := p.binary.BuildInfo
	if info != nil {
		pkg.PackageSourceInfo = fmt.Sprintf("built with %s from %s", info.GoVersion, info.Path)
	}

	id := b.add(pkg)
	b.relate(root, common.TypeRelationshipContains, id)

	if info == nil {
		return nil
	}

	modules := []debug.Module{{Path: "stdlib", Version: info.GoVersion}}
	// A main module without a version is whoever built the program, not something it depends on.
	if info.Main.Sum != "" {
		modules = append(modules, info.Main)
	}

	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}

		modules = append(modules, *dep)
	}

	for _, module := range modules {
		moduleID, err := b.addModule(module)
		if err != nil {
			return err
		}

		b.relate(id, common.TypeRelationshipDependsOn, moduleID)
	}

	return nil
}

func (b *sbom) addModule(module debug.Module) (common.ElementID, error) {
	key := module.Path + "@" + module.Version
	if id, ok := b.modules[key]; ok {
		return id, nil
	}

	id := b.identifier("module", key)
	b.modules[key] = id

	version := module.Version
	if version == "" {
		version = noAssertion
	}

	pkg := spdx.Package{
		PackageName:             b.prefix + module.Path,
		PackageSPDXIdentifier:   id,
		PackageVersion:          version,
		PackageDownloadLocation: noAssertion,
		PrimaryPackagePurpose:   "LIBRARY",
	}

	if module.Version != "" && module.Version != "(devel)" {
		pkg.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  purl(module),
		}}
	}

	if module.Sum != "" {
		// An h1: sum is a SHA-256 over the list of the module's files.
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
		if err != nil {
			return "", fmt.Errorf("module %s has a malformed sum %q", module.Path, module.Sum)
		}

		pkg.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: hex.EncodeToString(sum)}}
		pkg.PackageComment = "go.sum " + module.Sum
	}

	return b.add(pkg), nil
}

// purl is the package URL of a Go module; the standard library's versions have no v.
func purl(module debug.Module) string {
	if module.Path == "stdlib" {
		return "pkg:golang/stdlib@" + strings.TrimPrefix(module.Version, "go")
	}

	// "+" as in +incompatible must not be read as a space.
	return "pkg:golang/" + strings.ToLower(module.Path) + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
}

func (b *sbom) add(pkg spdx.Package) common.ElementID {
	b.document.Packages = append(b.document.Packages, &pkg)

	return pkg.PackageSPDXIdentifier
}

func (b *sbom) relate(from common.ElementID, kind string, to common.ElementID) {
	relationship := &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to)),
	}

	same := func(r *spdx.Relationship) bool { return *r == *relationship }
	if !slices.ContainsFunc(b.document.Relationships, same) {
		b.document.Relationships = append(b.document.Relationships, relationship)
	}
}

var notInIdentifier = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// identifier makes an SPDX element ID, which allows only letters, digits, dots and dashes. Names that
// would become equal by that get a number.
func (b *sbom) identifier(kind, name string) common.ElementID {
	id := common.ElementID(kind + "-" + notInIdentifier.ReplaceAllString(name, "-"))

	unique := id
	for n := 2; b.taken[unique]; n++ {
		unique = common.ElementID(fmt.Sprintf("%s-%d", id, n))
	}

	b.taken[unique] = true

	return unique
}
