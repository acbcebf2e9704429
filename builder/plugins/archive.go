package plugins

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles"
)

// ArchiveSource takes the plugins from an archive shaped like upstream's release asset.
type ArchiveSource struct {
	// Path of the .tgz file; {arch} is replaced.
	Path string
	// AllowUnpinned takes an archive whose sum is not the pin's.
	AllowUnpinned bool
}

var _ Source = (*ArchiveSource)(nil)

// Kind is "archive".
func (s *ArchiveSource) Kind() string { return "archive" }

// Provide checks the archive's sum against the pin before anything is unpacked.
func (s *ArchiveSource) Provide(ctx context.Context, pin profiles.Pin, arch string, selection []profiles.Plugin, dir string) (Files, error) {
	name := strings.ReplaceAll(s.Path, "{arch}", arch)

	// Reading a FIFO would block, and a device may never end.
	info, err := os.Stat(name)
	if err != nil {
		return Files{}, fmt.Errorf("reading archive: %w", err)
	}

	if !info.Mode().IsRegular() {
		return Files{}, fmt.Errorf("archive %s is not a regular file", name)
	}

	digest, size, err := payload.DigestFile(name)
	if err != nil {
		return Files{}, fmt.Errorf("reading archive: %w", err)
	}

	want := pin.Release.SHA256[arch]
	unpinned := digest != "sha256:"+want

	if unpinned && !s.AllowUnpinned {
		if want == "" {
			return Files{}, fmt.Errorf("archive %s: pin %s has no sum for %s: add one, or accept the file with --allow-unpinned", name, pin.Version, arch)
		}

		return Files{}, fmt.Errorf("archive %s (%s, %d bytes) has %s, pin %s for %s says sha256:%s: it is another release or was altered; accept it with --allow-unpinned",
			name, sniff(name), size, digest, pin.Version, arch, want)
	}

	files, err := unpack(ctx, name, selection, dir)
	if err != nil {
		return Files{}, fmt.Errorf("archive %s: %w", name, err)
	}

	files.Unpinned = unpinned

	return files, nil
}

// Bounds of an archive; upstream's has about 20 entries and 75 MB of content.
const (
	maxArchiveEntries = 1000
	maxArchiveSize    = 2 << 30
)

// unpack takes the selected plugins out of an upstream-shaped archive: regular files named
// "./bridge" or "bridge". Every other entry is passed over; nothing is written outside dir.
func unpack(ctx context.Context, name string, selection []profiles.Plugin, dir string) (Files, error) {
	file, err := os.Open(name)
	if err != nil {
		return Files{}, err
	}
	defer file.Close()

	compressed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return Files{}, fmt.Errorf("not a gzip archive (it is %s): %w", sniff(name), err)
	}

	files := Files{ByName: make(map[string]File)}
	content := &io.LimitedReader{R: compressed, N: maxArchiveSize}
	archive := tar.NewReader(content)
	room := int64(maxArchiveSize)

	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return Files{}, err
		}

		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		switch {
		case content.N <= 0:
			return Files{}, fmt.Errorf("unpacks to more than %d bytes", int64(maxArchiveSize))
		case err != nil:
			return Files{}, fmt.Errorf("reading tar archive: %w", err)
		case n >= maxArchiveEntries:
			return Files{}, fmt.Errorf("has more than %d entries", maxArchiveEntries)
		}

		// A sparse file unpacks to more than the bytes it takes in the archive.
		if room -= header.Size; room < 0 {
			return Files{}, fmt.Errorf("unpacks to more than %d bytes", int64(maxArchiveSize))
		}

		plugin := strings.TrimPrefix(header.Name, "./")
		wanted := slices.ContainsFunc(selection, func(p profiles.Plugin) bool { return p.Name == plugin })

		if !wanted {
			continue
		}

		if header.Typeflag != tar.TypeReg {
			return Files{}, fmt.Errorf("%s is not a regular file in it", plugin)
		}

		if _, ok := files.ByName[plugin]; ok {
			return Files{}, fmt.Errorf("%s is in it twice", plugin)
		}

		if header.Size > payload.MaxPluginSize {
			return Files{}, fmt.Errorf("%s has %d bytes, more than a plugin can have (%d)", plugin, header.Size, int64(payload.MaxPluginSize))
		}

		files.ByName[plugin], err = writeFile(filepath.Join(dir, plugin), archive)
		if err != nil {
			return Files{}, fmt.Errorf("unpacking %s: %w", plugin, err)
		}
	}

	return files, missing(files, selection)
}

// missing reports selected plugins that a source does not have.
func missing(files Files, selection []profiles.Plugin) error {
	var names []string

	for _, plugin := range selection {
		if _, ok := files.ByName[plugin.Name]; !ok {
			names = append(names, plugin.Name)
		}
	}

	if len(names) > 0 {
		return fmt.Errorf("does not have %s", strings.Join(names, ", "))
	}

	return nil
}

// writeFile writes and hashes in one pass.
func writeFile(name string, content io.Reader) (File, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return File{}, err
	}

	digester := payload.NewDigester()

	if _, err := io.Copy(io.MultiWriter(file, digester), content); err != nil {
		file.Close()

		return File{}, err
	}

	return File{Path: name, Digest: digester.Digest(), Size: digester.Size()}, file.Close()
}

// sniff says what a file looks like, for messages about a file that is not what it should be.
func sniff(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return "unreadable"
	}
	defer file.Close()

	head := make([]byte, 512)
	n, _ := io.ReadFull(file, head)

	return http.DetectContentType(head[:n])
}
