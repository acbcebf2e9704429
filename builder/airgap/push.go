package airgap

import (
	"context"
	"fmt"
	"regexp"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/cnibake/cnibake/builder/oci"
)

// Pushed says where an image of a bundle is now.
type Pushed struct {
	// Image is its name in the bundle, Reference PREFIX/REPOSITORY:TAG@DIGEST.
	Image     string `json:"image"`
	Reference string `json:"reference"`
	// Uploaded counts the blobs that were not there, Bytes are theirs.
	Uploaded int   `json:"uploadedBlobs"`
	Bytes    int64 `json:"uploadedBytes"`
	// Attachments counts signatures, attestations and SBOMs.
	Attachments int `json:"attachments"`
}

var prefixPattern = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// Target returns the name under which an image is pushed: its own, with the prefix in the place of its
// registry. Image Factory and registry mirrors of container runtimes expect the rest to stay.
func Target(image, prefix string) (string, error) {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", image, err)
	}

	target := prefix + "/" + tag.RepositoryStr() + ":" + tag.TagStr()

	if !prefixPattern.MatchString(prefix) || !oci.LooksRemote(target) {
		return "", fmt.Errorf("%q is not REGISTRY or REGISTRY/PREFIX, such as registry.example/mirror", prefix)
	}

	return target, nil
}

// Push copies every image with what is attached to it into a registry. Digests stay as they are. What is
// there already is not sent again.
func (b *Bundle) Push(ctx context.Context, client *oci.Client, prefix string, options ...oci.CopyOption) ([]Pushed, error) {
	targets := make([]*oci.Repository, len(b.images))
	pushed := make([]Pushed, len(b.images))

	for i, image := range b.images {
		target, err := Target(image.Name, prefix)
		if err != nil {
			return nil, err
		}

		if targets[i], err = client.Repository(target); err != nil {
			return nil, err
		}

		pushed[i] = Pushed{Image: image.Reference(), Reference: target + "@" + image.Digest}
	}

	for i, store := range b.stores {
		copied, err := oci.Copy(ctx, store, targets[i], options...)
		if err != nil {
			return nil, err
		}

		if copied.Digest.String() != b.images[i].Digest {
			return nil, fmt.Errorf("pushing %s: it has digest %s now", pushed[i].Reference, copied.Digest)
		}

		pushed[i].Uploaded, pushed[i].Bytes, pushed[i].Attachments = copied.Uploaded, copied.Bytes, copied.Attachments
	}

	return pushed, nil
}
