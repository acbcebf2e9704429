package corpus

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/siderolabs/talos/pkg/imager/profile"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/imager"
)

// layoutCase is a layout for ociPath and what the imager makes of it.
type layoutCase struct {
	name  string
	want  Outcome
	harm  string
	write func(t *testing.T, g good) string
}

var (
	linuxAMD64 = v1.Platform{OS: "linux", Architecture: artifact.AMD64}
	linuxARM64 = v1.Platform{OS: "linux", Architecture: artifact.ARM64}
)

var layoutCases = []layoutCase{
	{name: "good", want: Accept, write: func(t *testing.T, g good) string { return string(copyLayout(t, g.layout())) }},
	{name: "nested index", want: Reject, write: func(t *testing.T, g good) string {
		return indexed(t, mutate.IndexAddendum{Add: indexOf(t, g.layout())})
	}},
	{name: "no platform", want: Reject, write: func(t *testing.T, g good) string {
		return indexed(t, mutate.IndexAddendum{Add: imageOf(t, g.layout(), artifact.AMD64)})
	}},
	{name: "platform of another system", want: Reject, write: func(t *testing.T, g good) string {
		return indexed(t, as(imageOf(t, g.layout(), artifact.AMD64), v1.Platform{OS: "unknown", Architecture: artifact.AMD64}))
	}},
	{name: "only the other architecture, called x86_64", want: Reject, write: func(t *testing.T, g good) string {
		return indexed(t, as(imageOf(t, g.layout(), artifact.AMD64), v1.Platform{OS: "linux", Architecture: "x86_64"}))
	}},
	{name: "empty index", want: Reject, write: func(t *testing.T, _ good) string { return indexed(t) }},
	{name: "architectures swapped", want: Ruin, harm: "exec format error on every node", write: func(t *testing.T, g good) string {
		return indexed(t, as(imageOf(t, g.layout(), artifact.ARM64), linuxAMD64), as(imageOf(t, g.layout(), artifact.AMD64), linuxARM64))
	}},
	{name: "one image for both architectures", want: Ruin, harm: "exec format error on arm64", write: func(t *testing.T, g good) string {
		image := imageOf(t, g.layout(), artifact.AMD64)

		return indexed(t, as(image, linuxAMD64), as(image, linuxARM64))
	}},
	{name: "no layer", want: Reject, write: func(t *testing.T, _ good) string { return layers(t) }},
	{name: "empty layer", want: Reject, write: func(t *testing.T, _ good) string { return layers(t, Archive{}) }},
	{name: "two layers, parents in the lower one", want: Reject, write: func(t *testing.T, g good) string {
		i := g.archive.at(plugin)

		return layers(t, without(plugin)(g.archive.clone()), Archive{g.archive[i]})
	}},
	{name: "two layers, each with its parents", want: Accept, write: func(t *testing.T, g good) string {
		upper := withoutBelow(part)(without("manifest.yaml")(g.archive.clone()))

		return layers(t, without(plugin)(g.archive.clone()), upper)
	}},
	{name: "gzip layer", want: Accept, write: func(t *testing.T, g good) string { return compressed(t, g, types.OCILayer, gzipped) }},
	{name: "zstd layer", want: Accept, write: func(t *testing.T, g good) string { return compressed(t, g, types.OCILayerZStd, zstdCompressed) }},
	{name: "uncompressed layer", want: Accept, write: func(t *testing.T, g good) string {
		return compressed(t, g, types.OCIUncompressedLayer, func(_ *testing.T, content []byte) []byte { return content })
	}},
	{name: "missing blob", want: Reject, write: func(t *testing.T, g good) string {
		return damaged(t, g, func(string, []byte) []byte { return nil })
	}},
	{name: "blob cut short", want: Reject, write: func(t *testing.T, g good) string {
		return damaged(t, g, func(_ string, content []byte) []byte { return content[:len(content)/2] })
	}},
	{name: "blob with other bytes", want: Reject, write: func(t *testing.T, g good) string {
		return damaged(t, g, func(_ string, content []byte) []byte {
			return append(bytes.Repeat([]byte{0}, 64), content[64:]...)
		})
	}},
	{name: "no index.json", want: Reject, write: func(t *testing.T, g good) string {
		dir := copyLayout(t, g.layout())
		if err := os.Remove(filepath.Join(string(dir), "index.json")); err != nil {
			t.Fatal(err)
		}

		return string(dir)
	}},
	{name: "broken entries in the layer", want: Ruin, write: func(t *testing.T, g good) string {
		return layers(t, kind(plugin, '1', pluginDir+".cni-plugins.json")(g.archive.clone()))
	}},
}

func (g good) layout() string { return g.dist.Layout(artifact.TalosReadonly) }

// TestLayout runs broken layouts through the imager and through lint.
func TestLayout(t *testing.T) {
	g := newGood(t)

	for _, c := range layoutCases {
		t.Run(c.name, func(t *testing.T) {
			dir := c.write(t, g)

			got, why := judgeLayout(t, g, dir, c.harm)
			t.Logf("%s: %s %s", middle, got, why)

			if got != c.want {
				t.Errorf("%s: %s, want %s", middle, got, c.want)
			}

			wantLint(t, dir, got != Accept, middle)
		})
	}
}

func judgeLayout(t *testing.T, g good, dir, harm string) (Outcome, string) {
	t.Helper()

	line := release{middle, func(ctx context.Context, path, parent string) (string, error) {
		return unpack(ctx, profile.ContainerAsset{OCIPath: path}, artifact.AMD64, parent)
	}}

	unpacked, err := line.load(t.Context(), dir, t.TempDir())
	if err != nil {
		return Reject, err.Error()
	}

	tree, err := imager.Tree(unpacked)
	if err != nil {
		t.Fatal(err)
	}

	switch ruined := damage(g.archive, tree); {
	case len(ruined) > 0:
		return Ruin, ruined[0]
	case harm != "":
		return Ruin, harm
	default:
		return Accept, ""
	}
}

// as adds an image under a platform.
func as(image v1.Image, platform v1.Platform) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}}
}

// indexed writes a layout with these in its index.
func indexed(t *testing.T, parts ...mutate.IndexAddendum) string {
	t.Helper()

	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), parts...)
	dir := filepath.Join(t.TempDir(), "layout")

	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}

	return dir
}

// layers writes a layout with one amd64 image of these layers, the lowest first.
func layers(t *testing.T, archives ...Archive) string {
	t.Helper()

	image := ociImage(t)

	for _, archive := range archives {
		content, err := archive.Bytes()
		if err != nil {
			t.Fatal(err)
		}

		image = withLayer(t, image, types.OCIUncompressedLayer, content)
	}

	return indexed(t, as(image, linuxAMD64))
}

// compressed writes a layout with the good archive as its one layer.
func compressed(t *testing.T, g good, media types.MediaType, compress func(*testing.T, []byte) []byte) string {
	t.Helper()

	content, err := g.archive.Bytes()
	if err != nil {
		t.Fatal(err)
	}

	return indexed(t, as(withLayer(t, ociImage(t), media, compress(t, content)), linuxAMD64))
}

func ociImage(t *testing.T) v1.Image {
	t.Helper()

	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", artifact.AMD64

	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		t.Fatal(err)
	}

	return image
}

func withLayer(t *testing.T, image v1.Image, media types.MediaType, content []byte) v1.Image {
	t.Helper()

	var layer v1.Layer = static.NewLayer(content, media)

	if media != types.OCIUncompressedLayer {
		// Only this one tells the digest of the tar from that of the blob.
		compressed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}, tarball.WithMediaType(media))
		if err != nil {
			t.Fatal(err)
		}

		layer = compressed
	}

	image, err := mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: media})
	if err != nil {
		t.Fatal(err)
	}

	return image
}

// damaged writes a copy of the good layout in which the amd64 layer's blob is something else, or is
// not there when f returns nil.
func damaged(t *testing.T, g good, f func(name string, content []byte) []byte) string {
	t.Helper()

	dir := copyLayout(t, g.layout())

	blobs, err := imageOf(t, string(dir), artifact.AMD64).Layers()
	if err != nil {
		t.Fatal(err)
	}

	digest, err := blobs[0].Digest()
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(string(dir), "blobs", digest.Algorithm, digest.Hex)

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if content = f(path, content); content == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, content, 0o644)
	}

	if err != nil {
		t.Fatal(err)
	}

	return string(dir)
}

func indexOf(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}

	return index
}

// imageOf reads one architecture's image from a layout.
func imageOf(t *testing.T, dir, arch string) v1.Image {
	t.Helper()

	index := indexOf(t, dir)

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform != nil && descriptor.Platform.Architecture == arch {
			image, err := index.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}

			return image
		}
	}

	t.Fatalf("%s has no image for %s", dir, arch)

	return nil
}
