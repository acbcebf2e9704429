package builder

import (
	"context"
	"fmt"
	"io"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/profiles"
)

// Image is the container image whose entrypoint is the installer.
type Image struct{}

var _ Format = Image{}

// NeedsInstaller is true: it is the entrypoint.
func (Image) NeedsInstaller() bool { return true }

// SBOMName is the plugin set's.
func (Image) SBOMName(profiles.Profile) string { return setName }

// Write writes the layout PROFILE/ and, for each architecture, the OCI archive PROFILE-ARCH.tar,
// which container runtimes import under the profile's image name.
func (f Image) Write(ctx context.Context, target *Target, out *Output) error {
	annotations := target.Annotations("install-cni-plugins")

	variants, err := Variants(ctx, target, func(ctx context.Context, arch string) (*oci.Layer, oci.ImageConfig, error) {
		payload, err := target.Payload(ctx, arch)
		if err != nil {
			return nil, oci.ImageConfig{}, err
		}

		tree, err := payload.Tree(target.Profile, "", f.SBOMName(target.Profile))
		if err != nil {
			return nil, oci.ImageConfig{}, err
		}

		// Container runtimes unpack parents with modes of their own choice otherwise.
		if err := tree.AddParents(); err != nil {
			return nil, oci.ImageConfig{}, err
		}

		layer, err := target.Layer(ctx, tree)

		return layer, oci.ImageConfig{
			Arch: arch, Created: target.Created, Annotations: annotations,
			Entrypoint: []string{target.Profile.Installer}, User: "0:0",
		}, err
	})
	if err != nil {
		return err
	}

	tag := target.Pin.PackagedVersion()

	if err := out.Layout(ctx, target.Profile.Name, tag, annotations, variants); err != nil {
		return err
	}

	for _, variant := range variants {
		artifact := Artifact{Name: fmt.Sprintf("%s-%s.tar", target.Profile.Name, variant.Arch), Kind: KindOCIArchive, Arch: variant.Arch}

		err := out.File(ctx, artifact, func(w io.Writer) error {
			return oci.WriteArchive(ctx, w, out.Work(), target.Profile.Image, tag, variant, target.Created)
		})
		if err != nil {
			return err
		}
	}

	return nil
}
