package talosimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/extension/release"
)

// Options say how sources are resolved.
type Options struct {
	// Stdin is what "-" stands for.
	Stdin io.Reader
	// Pull reads the images that references name, instead of believing their tags. It returns the images
	// of all platforms. Nil keeps everything offline.
	Pull func(ctx context.Context, reference string) ([]v1.Image, error)
	// TempDir holds temporary files; empty means the system's.
	TempDir string
}

// Resolve returns what a source says is shipped. A source is "-" for standard input, a file or directory
// that exists, a version, or an image reference.
func Resolve(ctx context.Context, source string, options Options) ([]release.Shipped, error) {
	if source == "-" {
		return resolveStdin(options.Stdin)
	}

	info, err := os.Stat(source)

	switch {
	case err == nil && info.IsDir():
		return options.resolveDirectory(ctx, source)
	case err == nil && info.Mode().IsRegular():
		all, err := options.resolveFile(ctx, source)
		if err != nil {
			return nil, err
		}

		return options.pullAll(ctx, all)
	case err == nil:
		return nil, fmt.Errorf("%s: neither a file nor a directory", source)
	case !errors.Is(err, fs.ErrNotExist) && !isNameTooLong(err):
		return nil, err
	}

	if shipped, err := release.ShippedVersion(source); err == nil {
		return []release.Shipped{shipped}, nil
	}

	shipped, err := release.ParseReference(source)
	// A lone word is rather a file that is missing than an image.
	if err != nil || shipped.Writer == "" && !oci.LooksRemote(source) {
		return nil, fmt.Errorf("%s: no such file, and neither a version nor a known image reference", source)
	}

	return options.pullAll(ctx, []release.Shipped{shipped})
}

func resolveStdin(stdin io.Reader) ([]release.Shipped, error) {
	if stdin == nil {
		return nil, errors.New("reading standard input: there is none")
	}

	data, err := io.ReadAll(io.LimitReader(stdin, release.MaxSPDX+1))
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}

	if len(data) > release.MaxSPDX {
		return nil, fmt.Errorf("reading standard input: more than %d bytes", release.MaxSPDX)
	}

	return release.Recognise("standard input", data)
}

func (o Options) resolveDirectory(ctx context.Context, dir string) ([]release.Shipped, error) {
	if !oci.IsLayout(dir) {
		return nil, fmt.Errorf("%s: a directory, but not an OCI image layout (no oci-layout file in it)", dir)
	}

	if err := checkLayout(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}

	images, err := oci.ReadLayout(dir)
	if err != nil {
		return nil, err
	}

	return readImages(ctx, dir, images, o.TempDir)
}

// resolveFile tells parts of an image (initramfs, UKI, squashfs) from texts by their first bytes.
func (o Options) resolveFile(ctx context.Context, name string) ([]release.Shipped, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	head := make([]byte, headSize)

	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}

	if kindOf(head[:n]) != kindOther {
		return readPart(ctx, name, file, info.Size(), o.TempDir)
	}

	if info.Size() > release.MaxSPDX {
		return nil, fmt.Errorf("%s: %d bytes are more than such a text can have (limit %d)", name, info.Size(), release.MaxSPDX)
	}

	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}

	var text bytes.Buffer

	text.Grow(int(info.Size()) + bytes.MinRead)

	if _, err := text.ReadFrom(io.LimitReader(file, release.MaxSPDX)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}

	return release.Recognise(name, text.Bytes())
}

// pullAll replaces what references say by what the images themselves hold, if that is asked for.
func (o Options) pullAll(ctx context.Context, all []release.Shipped) ([]release.Shipped, error) {
	if o.Pull == nil {
		return all, nil
	}

	var read []release.Shipped

	for _, shipped := range all {
		if shipped.Image == "" || shipped.Writer == release.KubeOVN {
			read = append(read, shipped)

			continue
		}

		images, err := o.Pull(ctx, shipped.Image)
		if err != nil {
			return nil, fmt.Errorf("pulling %s: %w", shipped.Image, err)
		}

		found, err := readImages(ctx, shipped.Source, images, o.TempDir)
		if err != nil {
			return nil, err
		}

		read = append(read, found...)
	}

	return read, nil
}
