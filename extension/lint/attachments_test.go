package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/oci"
)

// The imager passes over what has no platform, and so do the rules.
func TestSignedLayoutIsAsGood(t *testing.T) {
	t.Parallel()

	dir := layoutOf(t, goodLayout(t))

	store, err := oci.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}

	subjects, err := store.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, subject := range subjects {
		digest := subject.Descriptor.Digest
		signature := attachment(t, types.OCIConfigJSON, "application/vnd.dev.cosign.simplesigning.v1+json")
		bundle := attachment(t, "application/vnd.oci.empty.v1+json", "application/vnd.dev.sigstore.bundle.v0.3+json")

		err := store.Attach(t.Context(),
			oci.Attachment{Subject: digest, Tag: oci.LegacyTag(digest, "sig"), Image: signature},
			oci.Attachment{Subject: digest, Image: mutate.Subject(bundle, subject.Descriptor).(v1.Image)})
		if err != nil {
			t.Fatal(err)
		}
	}

	report := lintFile(t, dir, Options{})
	if diff := cmp.Diff([]Finding{}, report.Findings); diff != "" {
		t.Error(diff)
	}
}

func attachment(t *testing.T, config, layer types.MediaType) v1.Image {
	t.Helper()

	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), config)

	image, err := mutate.AppendLayers(image, static.NewLayer([]byte("{}"), layer))
	if err != nil {
		t.Fatal(err)
	}

	return image
}
