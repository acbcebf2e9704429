package builder

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/cnibake/cnibake/builder/oci"
)

// Variants makes one image for each architecture of a target, in the target's order. layer returns
// an architecture's layer and what its image says about itself.
func Variants(ctx context.Context, target *Target, layer func(ctx context.Context, arch string) (*oci.Layer, oci.ImageConfig, error)) ([]oci.Variant, error) {
	variants := make([]oci.Variant, len(target.Architectures))
	position := make(map[string]int)

	for i, arch := range target.Architectures {
		position[arch] = i
	}

	err := eachArch(ctx, target.Architectures, func(ctx context.Context, arch string) error {
		l, config, err := layer(ctx, arch)
		if err != nil {
			return err
		}

		image, err := oci.NewImage(l, config)
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", arch, err)
		}

		variants[position[arch]] = oci.Variant{Arch: arch, Image: image}

		return nil
	})

	return variants, err
}

// eachArch runs do for all architectures at once: an architecture whose plugins are ready is packed
// while others still compile.
func eachArch(ctx context.Context, architectures []string, do func(ctx context.Context, arch string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, arch := range architectures {
		group.Go(func() error { return do(ctx, arch) })
	}

	return group.Wait()
}
