package attest_test

import (
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/buildertest"
)

// What an index lists beside the attested images would be given to nodes, too: also when it is good in
// itself, such as an older build, and when nobody here knows what it is.
func TestIndexListsNothingElse(t *testing.T) {
	t.Parallel()

	out := dist(t, nil)
	original := open(t, filepath.Join(out, "talos"))
	stated := statements(t, out)
	signer, trust := keyPair(t)
	older := rebuild(t, original, nil, nil)

	subjects, err := original.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	others, err := older.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	amd64 := subjects[1].Descriptor.Platform
	listed := func(image v1.Image, platform *v1.Platform) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}}
	}

	for title, test := range map[string]struct {
		added mutate.IndexAddendum
		want  string
	}{
		"one platform twice": {listed(others[1].Image, amd64), "it lists two images for linux/amd64: " + digests(t, older)[1].String()},
		"something else": {mutate.IndexAddendum{
			Add: static.NewLayer([]byte("{}"), "application/x-unheard-of"), Descriptor: v1.Descriptor{Platform: amd64, MediaType: "application/x-unheard-of"},
		}, "it lists something that is no image: sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a (application/x-unheard-of)"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()

			index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), test.added,
				listed(subjects[1].Image, amd64), listed(subjects[2].Image, subjects[2].Descriptor.Platform))

			dir := filepath.Join(t.TempDir(), "nested")
			if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})); err != nil {
				t.Fatal(err)
			}

			nested := rebuilt{Layout: open(t, dir), renamed: make(map[string]string)}
			nested.renamed[subjects[0].Descriptor.Digest.Hex] = digests(t, nested)[0].Hex

			sign(t, nested, signer, append(older.restated(t, stated), nested.restated(t, stated)...))
			refused(t, nested, buildertest.Policy(t, trust), digests(t, nested)[0].String(), test.want)

			lax := buildertest.Policy(t, trust)
			lax.SignatureOnly = true

			if _, err := attest.Verify(t.Context(), nested, lax); err != nil {
				t.Errorf("all of it is signed: %v", err)
			}
		})
	}
}
