package talosimage

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
)

// Puller returns a function for Options.Pull that reads images from registries. Layers are fetched only
// when they are read, and only as far as they are needed.
func Puller(client *oci.Client) func(ctx context.Context, reference string) ([]v1.Image, error) {
	return func(ctx context.Context, reference string) ([]v1.Image, error) {
		root, err := client.Get(ctx, reference)
		if err != nil {
			return nil, err
		}

		if root.Image != nil {
			return []v1.Image{root.Image}, nil
		}

		return platformImages(root.Index)
	}
}

// platformImages returns the images of an index that are for an operating system; signatures and
// attestations are not.
func platformImages(index v1.ImageIndex) ([]v1.Image, error) {
	const most = 16

	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}

	var images []v1.Image

	for _, descriptor := range manifest.Manifests {
		if !descriptor.MediaType.IsImage() || descriptor.Platform == nil || descriptor.Platform.OS != "linux" {
			continue
		}

		if len(images) == most {
			return nil, fmt.Errorf("more than %d platforms", most)
		}

		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return nil, err
		}

		images = append(images, image)
	}

	if len(images) == 0 {
		return nil, fmt.Errorf("the index lists no image for linux")
	}

	return images, nil
}
