package airgap

import (
	"bytes"
	"fmt"
)

// Image is an image of a bundle.
type Image struct {
	// Name is REPOSITORY:TAG, Digest that of the index.
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Platforms lists the images of the index.
	Platforms []Platform `json:"platforms"`
	// Attachments counts its signatures, attestations and SBOMs.
	Attachments int `json:"attachments"`
}

// Platform is the image for one platform.
type Platform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	// Compressed is what a registry stores and a node pulls: manifest, configuration and layers.
	// Unpacked is the size of the layers as tars, about what they take on a disk. Both are in bytes.
	Compressed int64 `json:"compressed"`
	Unpacked   int64 `json:"unpacked"`
}

// Reference is NAME:TAG@DIGEST.
func (i Image) Reference() string { return i.Name + "@" + i.Digest }

// list is images.txt: a line for every image and platform.
func (c *contents) list() []byte {
	var (
		out   bytes.Buffer
		total int64
	)

	fmt.Fprint(&out, "# image\tplatform\tdigest\tbytes in a registry\tbytes unpacked\n")

	for _, image := range c.images {
		for _, p := range image.Platforms {
			fmt.Fprintf(&out, "%s\t%s\t%s\t%d\t%d\n", image.Reference(), p.Platform, p.Digest, p.Compressed, p.Unpacked)
		}
	}

	for _, blob := range c.blobs {
		total += blob.size
	}

	fmt.Fprintf(&out, "# all of it in one registry, signatures and attestations included: %d bytes\n", total)

	return out.Bytes()
}
