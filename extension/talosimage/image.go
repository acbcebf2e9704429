package talosimage

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/extension/release"
)

// installDir is where imager and installer images keep what they install, by architecture.
const installDir = "usr/install"

// readImages reads the evidence in each image. Platforms that agree become one statement.
func readImages(ctx context.Context, source string, images []v1.Image, tempDir string) ([]release.Shipped, error) {
	var all []release.Shipped

	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("%s: reading image: %w", source, err)
		}

		shipped, err := readImage(ctx, image, tempDir)
		if err != nil {
			return nil, fmt.Errorf("%s: image for %s: %w", source, config.Architecture, err)
		}

		shipped.Source = source

		if n := len(all); n > 0 && all[n-1].Plugins == shipped.Plugins && all[n-1].Release == shipped.Release {
			all[n-1].Evidence = append(all[n-1].Evidence, shipped.Evidence...)

			continue
		}

		all = append(all, shipped)
	}

	return all, nil
}

// readImage looks for Talos's SBOM in an image, and without one into its initramfs or unified kernel image.
func readImage(ctx context.Context, image v1.Image, tempDir string) (release.Shipped, error) {
	work, err := os.MkdirTemp(tempDir, "cnibake-image-")
	if err != nil {
		return release.Shipped{}, err
	}
	defer os.RemoveAll(work)

	layers, err := image.Layers()
	if err != nil {
		return release.Shipped{}, fmt.Errorf("reading layers: %w", err)
	}

	s := &scan{ctx: ctx, work: work}

	// The top layer's files hide those below.
	for i := len(layers) - 1; i >= 0 && s.sbom == nil; i-- {
		if err := s.layer(layers[i]); err != nil {
			return release.Shipped{}, err
		}
	}

	if s.sbom != nil {
		s.sbom.Kind = "image with an SBOM"

		return *s.sbom, nil
	}

	return s.descend()
}

type scan struct {
	ctx  context.Context //nolint:containedctx // lives for one image
	work string
	sbom *release.Shipped
	// parts are files to look into when there is no SBOM, from the top layer down.
	parts []part
	bytes int64
	seen  map[string]bool
}

type part struct {
	name string
	file string
	kind kind
}

func (s *scan) layer(layer v1.Layer) (err error) {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("reading layer: %w", err)
	}

	compressed, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	defer compressed.Close()

	hash := sha256.New()
	checked := io.TeeReader(compressed, hash)

	content, closeContent, err := decompressAll(checked)
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}
	defer closeContent()

	if err := s.walk(newLimited(content, maxLayer)); err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}

	// What follows the archive, or what was not needed any more, counts for the digest too.
	if _, err := io.Copy(io.Discard, checked); err != nil {
		return fmt.Errorf("reading layer %s: %w", digest, err)
	}

	if got := hex.EncodeToString(hash.Sum(nil)); digest.Algorithm != "sha256" || got != digest.Hex {
		return fmt.Errorf("layer %s has sha256:%s instead: it was altered", digest, got)
	}

	return nil
}

// walk looks at a layer's files until it has found the SBOM.
func (s *scan) walk(r io.Reader) error {
	archive := tar.NewReader(r)

	for n := 0; s.sbom == nil; n++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}

		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fmt.Errorf("reading tar: %w", err)
		}

		if n == maxEntries {
			return fmt.Errorf("reading tar: more than %d entries", maxEntries)
		}

		if header.Typeflag != tar.TypeReg {
			continue
		}

		if err := s.file(cleanName(header.Name), header.Size, archive); err != nil {
			return fmt.Errorf("reading %s: %w", header.Name, err)
		}
	}

	return nil
}

func cleanName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

func (s *scan) file(name string, size int64, content io.Reader) error {
	inInstall := strings.HasPrefix(name, installDir+"/")
	if !inInstall && !strings.HasPrefix(name, spdxDir+"/") || s.seen[name] {
		return nil
	}

	if s.seen == nil {
		s.seen = make(map[string]bool)
	}

	s.seen[name] = true

	buffered := bufio.NewReaderSize(content, bufferSize)
	head, _ := buffered.Peek(headSize)

	switch k := kindOf(head); {
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return s.trySBOM(name, buffered)
	case inInstall && (k == kindPE || k == kindXZ || k == kindZstd || k == kindGzip || k == kindCPIO):
		return s.keep(name, k, size, buffered)
	default:
		return nil
	}
}

// trySBOM takes a document that is Talos's SBOM; any other JSON may lie there too.
func (s *scan) trySBOM(name string, content io.Reader) error {
	found, err := release.ReadSPDX(content)

	switch {
	case errors.Is(err, release.ErrNoPlugins), errors.Is(err, release.ErrNotSPDX):
		return nil
	case err != nil:
		return err
	}

	s.sbom = &release.Shipped{Writer: release.Talos, Why: found.Why}
	merge(s.sbom, found, name)

	return nil
}

// keep copies a file out of the image.
func (s *scan) keep(name string, k kind, size int64, content io.Reader) error {
	if s.bytes += size; s.bytes > maxPart {
		return fmt.Errorf("kernels and initramfs have more than %d bytes", maxPart)
	}

	file, err := os.CreateTemp(s.work, "part-")
	if err != nil {
		return err
	}

	if err := errors.Join(copyExactly(file, content, size), file.Close()); err != nil {
		return err
	}

	s.parts = append(s.parts, part{name, file.Name(), k})

	return nil
}

// descend looks into the parts: initramfs and unified kernel images, which are PE programs like kernels
// and boot loaders.
func (s *scan) descend() (release.Shipped, error) {
	for _, p := range s.parts {
		shipped, err := s.look(p)

		switch {
		case errors.Is(err, errNoInitrd):
		// A kernel or a boot loader need not be a PE program that debug/pe knows.
		case err != nil && p.kind == kindPE && !errors.Is(err, errInitrd):
		case err != nil:
			return release.Shipped{}, err
		default:
			shipped.Kind = "image"

			return shipped, nil
		}
	}

	return release.Shipped{}, fmt.Errorf("neither Talos's SBOM nor an initramfs or a unified kernel image below %s: is it an imager or installer image?", installDir)
}

func (s *scan) look(p part) (release.Shipped, error) {
	file, err := os.Open(p.file)
	if err != nil {
		return release.Shipped{}, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return release.Shipped{}, err
	}

	return evidence(s.ctx, p.name, file, info.Size(), s.work)
}
