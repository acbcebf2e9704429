package talosimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cnibake/cnibake/extension/release"
)

// rootfsName is the root file system inside an initramfs. Extensions lie beside it under other names.
const rootfsName = "rootfs.sqsh"

// readPart reads an initramfs, a unified kernel image or a squashfs that somebody has as a file.
func readPart(ctx context.Context, name string, file io.ReaderAt, size int64, tempDir string) ([]release.Shipped, error) {
	shipped, err := evidence(ctx, name, file, size, tempDir)
	if err != nil {
		return nil, err
	}

	shipped.Source, shipped.Kind = name, "part of an image"

	return []release.Shipped{shipped}, nil
}

// evidence looks into a part of an image, whatever it is.
func evidence(ctx context.Context, what string, r io.ReaderAt, size int64, tempDir string) (release.Shipped, error) {
	head := make([]byte, headSize)
	n, _ := r.ReadAt(head, 0)

	switch kindOf(head[:n]) {
	case kindSquashfs:
		return readRootfs(what, r, tempDir)
	case kindPE:
		return readUKI(ctx, what, r, tempDir)
	default:
		return readInitramfs(ctx, what, io.NewSectionReader(r, 0, size), tempDir)
	}
}

func readUKI(ctx context.Context, what string, r io.ReaderAt, tempDir string) (release.Shipped, error) {
	initrds, err := ukiInitrds(r)
	if err != nil {
		return release.Shipped{}, fmt.Errorf("%s: %w", what, err)
	}

	// The boot stub hands them to the kernel one behind the other.
	shipped, err := readInitramfs(ctx, what+": .initrd", io.MultiReader(initrds...), tempDir)
	if err != nil {
		return release.Shipped{}, fmt.Errorf("%w: %w", errInitrd, err)
	}

	return shipped, nil
}

// readInitramfs finds the root file system in an initramfs. Like the kernel, it takes the last one.
func readInitramfs(ctx context.Context, what string, r io.Reader, tempDir string) (shipped release.Shipped, err error) {
	found, err := os.CreateTemp(tempDir, "cnibake-rootfs-")
	if err != nil {
		return release.Shipped{}, err
	}

	defer os.Remove(found.Name())
	defer found.Close()

	seen := false

	err = walkInitramfs(ctx, r, func(name string, size int64, content io.Reader) error {
		if cleanName(name) != rootfsName {
			return nil
		}

		if size > maxPart {
			return fmt.Errorf("%s has %d bytes, more than %d", rootfsName, size, maxPart)
		}

		seen = true

		if _, err := found.Seek(0, io.SeekStart); err != nil {
			return err
		}

		if err := found.Truncate(0); err != nil {
			return err
		}

		return copyExactly(found, content, size)
	})
	if err != nil {
		return release.Shipped{}, fmt.Errorf("%s: %w", what, err)
	}

	if !seen {
		return release.Shipped{}, fmt.Errorf("%s: %w", what, errNoRootfs)
	}

	return readRootfs(what+": "+rootfsName, found, tempDir)
}

// errInitrd tells a fault inside a unified kernel image from a PE program that is none.
var errInitrd = errors.New("reading unified kernel image")

var errNoRootfs = errors.New("no " + rootfsName + " in this initramfs: is it Talos's?")
