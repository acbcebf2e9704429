package talosimage

import (
	"bufio"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/cnibake/cnibake/extension/release"
)

// Where things are in the root file system of Talos.
const (
	spdxDir   = "usr/share/spdx"
	pluginDir = "opt/cni/bin"
	osRelease = "etc/os-release"
)

// pluginsModule is the Go module of the plugins.
const pluginsModule = "github.com/containernetworking/plugins"

// readRootfs reads the evidence in a squashfs root file system of Talos: its SBOM, the plugins' own
// build info and digests, and the release it says it is. what names the file in messages.
func readRootfs(what string, r io.ReaderAt, tempDir string) (release.Shipped, error) {
	s, err := openSquashfs(r)
	if err != nil {
		return release.Shipped{}, fmt.Errorf("%s: %w", what, err)
	}

	shipped := release.Shipped{Writer: release.Talos}

	for _, read := range []func(string, *squashfs, *release.Shipped, string) error{readOSRelease, readSBOMs, readPlugins} {
		if err := read(what, s, &shipped, tempDir); err != nil {
			return release.Shipped{}, fmt.Errorf("%s: %w", what, err)
		}
	}

	if shipped.Release == "" && shipped.Plugins == "" {
		return release.Shipped{}, fmt.Errorf("%s: neither a Talos release in %s, nor an SBOM in %s, nor a version in the plugins of %s", what, osRelease, spdxDir, pluginDir)
	}

	if shipped.Release == "" {
		shipped.Why = "nothing in it names the Talos release"
	}

	return shipped, nil
}

func readOSRelease(what string, s *squashfs, shipped *release.Shipped, _ string) error {
	const limit = 64 << 10

	content, size, err := s.open(osRelease, limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("%s: %w", osRelease, err)
	}

	values := make(map[string]string)

	scanner := bufio.NewScanner(content)
	scanner.Buffer(nil, int(size)+1)

	for scanner.Scan() {
		if key, value, ok := strings.Cut(scanner.Text(), "="); ok {
			values[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}

	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s: %w", osRelease, err)
	}

	if found, err := release.ShippedVersion(values["VERSION_ID"]); err == nil && values["ID"] == release.Talos {
		shipped.Release = found.Release
		shipped.Evidence = append(shipped.Evidence, release.Evidence{Says: "release " + found.Release, From: what + ": VERSION_ID in " + osRelease})
	}

	return nil
}

func readSBOMs(what string, s *squashfs, shipped *release.Shipped, _ string) error {
	names, err := s.list(spdxDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", spdxDir, err)
	}

	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}

		name = path.Join(spdxDir, name)

		content, _, err := s.open(name, release.MaxSPDX)
		if errors.Is(err, errNotRegular) {
			continue
		}

		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		found, err := release.ReadSPDX(content)
		// Other packages may have documents of their own.
		if errors.Is(err, release.ErrNoPlugins) {
			continue
		}

		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		if shipped.Plugins != "" && shipped.Plugins != found.Plugins {
			return fmt.Errorf("%s says that the plugins are %s, another SBOM %s", name, found.Plugins, shipped.Plugins)
		}

		merge(shipped, found, what+": "+name)
	}

	return nil
}

// merge adds what was found in a part of an image.
func merge(shipped *release.Shipped, found release.Shipped, where string) {
	if shipped.Plugins == "" {
		shipped.Plugins = found.Plugins
	}

	if shipped.Release == "" {
		shipped.Release = found.Release
	}

	if shipped.Writer == "" {
		shipped.Writer = found.Writer
	}

	for _, e := range found.Evidence {
		shipped.Evidence = append(shipped.Evidence, release.Evidence{Says: e.Says, From: where + ": " + e.From})
	}
}

// readPlugins reads the plugins themselves. Their bytes are what ships, so where their build info has a
// version it counts, whatever an SBOM says; Talos's own build leaves it out.
func readPlugins(what string, s *squashfs, shipped *release.Shipped, tempDir string) error {
	var version, from string

	for _, name := range release.PluginNames(release.Talos) {
		name = path.Join(pluginDir, name)

		digest, found, err := readPlugin(s, name, tempDir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
			continue
		}

		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		says := digest

		if found != "" {
			says += ", plugins " + found
		}

		shipped.Evidence = append(shipped.Evidence, release.Evidence{Says: says, From: what + ": " + name})

		if found == "" {
			continue
		}

		if version != "" && version != found {
			return fmt.Errorf("%s was built from %s %s, %s from %s", name, pluginsModule, found, from, version)
		}

		version, from = found, name
	}

	if version == "" {
		return nil
	}

	if shipped.Plugins != "" && shipped.Plugins != version {
		shipped.Notes = append(shipped.Notes, fmt.Sprintf("the SBOM says that the plugins are %s, their own build info says %s: the bytes count", shipped.Plugins, version))
	}

	shipped.Plugins = version

	return nil
}

// readPlugin returns a plugin's digest, and the version in its build info if there is one.
func readPlugin(s *squashfs, name, tempDir string) (digest, version string, err error) {
	content, size, err := s.open(name, maxPlugin)
	if err != nil {
		return "", "", err
	}

	file, err := os.CreateTemp(tempDir, "cnibake-plugin-")
	if err != nil {
		return "", "", err
	}

	defer os.Remove(file.Name())
	defer file.Close()

	hash := sha256.New()

	if err := copyExactly(io.MultiWriter(file, hash), content, size); err != nil {
		return "", "", err
	}

	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), pluginVersion(file), nil
}

// pluginVersion returns the version of the plugins' module that a program was built from, or "".
func pluginVersion(r io.ReaderAt) (version string) {
	defer func() {
		// What cannot be read has no build info.
		if recover() != nil {
			version = ""
		}
	}()

	info, err := buildinfo.Read(r)
	if err != nil {
		return ""
	}

	if info.Main.Path == pluginsModule && info.Main.Replace == nil && release.IsVersion(info.Main.Version) {
		return info.Main.Version
	}

	for _, dep := range info.Deps {
		if dep.Path == pluginsModule && dep.Replace == nil && release.IsVersion(dep.Version) {
			return dep.Version
		}
	}

	return ""
}

// copyExactly fails on content that is shorter than announced.
func copyExactly(w io.Writer, r io.Reader, size int64) error {
	n, err := io.Copy(w, io.LimitReader(r, size))
	if err != nil {
		return err
	}

	if n != size {
		return fmt.Errorf("%d bytes instead of %d: %w", n, size, io.ErrUnexpectedEOF)
	}

	return nil
}
