// Package airgap makes bundles: one file that carries everything a build made, with its signatures and
// attestations, to where there is no network. It is a tar of an OCI image layout, so that other tools
// read it, too, with the other files of the build beside it.
package airgap

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/sums"
)

// Created says what a new bundle holds.
type Created struct {
	Images []Image `json:"images"`
	// Files counts the files besides the images, Size is that of the bundle in bytes.
	Files int   `json:"files"`
	Size  int64 `json:"size"`
	// LeftOut names what in the directory is not of the build.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Create writes the bundle of the build in a directory. The same directory always gives the same bytes.
func Create(ctx context.Context, w io.Writer, dir string) (*Created, error) {
	d, err := readDist(ctx, dir)
	if err != nil {
		return nil, err
	}

	var c contents

	for _, layout := range d.layouts {
		store, err := oci.OpenLayout(filepath.Join(dir, layout.Name))
		if err != nil {
			return nil, err
		}

		if err := c.add(ctx, layout.Image, store); err != nil {
			return nil, err
		}

		if err := layout.check(c.images[len(c.images)-1]); err != nil {
			return nil, fmt.Errorf("%s is not as cnibake build left it: %w: build again", filepath.Join(dir, layout.Name), err)
		}
	}

	members, err := c.members()
	if err != nil {
		return nil, err
	}

	members = append(members, d.files...)
	listed := sumsOf(members)

	if err := checkFiles(listed, d.sums); err != nil {
		return nil, fmt.Errorf("%s is not as cnibake build and sign left it: %w", dir, err)
	}

	members = append(members, bytesMember(sums.Name, sums.Encode(listed)))

	counted := &countingWriter{w: w}
	if err := writeTar(ctx, counted, members, d.build.Created); err != nil {
		return nil, fmt.Errorf("writing bundle: %w", err)
	}

	return &Created{Images: c.images, Files: len(d.files), Size: counted.n, LeftOut: d.leftOut}, nil
}

// check compares an image with what the report says of it.
func (l layoutReport) check(image Image) error {
	want := make(map[string]string)

	for _, reported := range l.Images {
		platform := oci.Platform(reported.Arch)
		want[reported.Digest] = platform.String()
	}

	for _, platform := range image.Platforms {
		if want[platform.Digest] != platform.Platform {
			return fmt.Errorf("%s does not list its image %s (%s)", buildName, platform.Digest, platform.Platform)
		}

		delete(want, platform.Digest)
	}

	for digest := range want {
		return fmt.Errorf("the image %s is missing", digest)
	}

	return nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)

	return n, err
}
