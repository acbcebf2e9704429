package attest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	ggcrstatic "github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
)

var discard = log.New(io.Discard, "", 0)

// lying is a registry that serves other bytes for one digest, whichever it is asked for.
type lying struct {
	honest http.Handler
	blob   v1.Hash
	data   []byte
}

func (l lying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, l.blob.String()) || strings.Contains(r.URL.Path, "/referrers/") {
		l.honest.ServeHTTP(w, r)

		return
	}

	// What the registry says about it stays.
	answer := &headers{ResponseWriter: w}
	l.honest.ServeHTTP(answer, r)
	_, _ = w.Write(l.data)
}

// headers passes an answer on without its body.
type headers struct{ http.ResponseWriter }

func (h *headers) Write(data []byte) (int, error) { return len(data), nil }

func sign(t *testing.T, store oci.Store, signer *attest.Signer, statements []attest.Statement) {
	t.Helper()

	if _, err := attest.Sign(t.Context(), store, signer, ""); err != nil {
		t.Fatal(err)
	}

	if statements == nil {
		return
	}

	if _, err := attest.Attest(t.Context(), store, signer, statements); err != nil {
		t.Fatal(err)
	}
}

// replay attaches to one subject what is about another, with everything rewritten that is not signed.
func replay(t *testing.T, from *oci.Layout, to rebuilt, source, victim v1.Hash, kind string) {
	t.Helper()

	a := attachmentOf(t, from, source, kind)
	a.Subject = victim

	if a.Tag != "" {
		a.Tag = oci.LegacyTag(victim, kind)
	} else {
		a.Image = edited(t, a.Image, func(manifest []byte) []byte {
			return bytes.ReplaceAll(manifest, []byte(source.Hex), []byte(victim.Hex))
		}, nil)
	}

	// A tag holds one manifest, so that its own signatures would be gone: it keeps them as bundles.
	if err := to.Attach(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// strip removes everything that is attached to a subject from a layout.
func strip(t *testing.T, layout rebuilt, subject v1.Hash) {
	t.Helper()

	attachments, err := layout.Attachments(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}

	var gone []string

	for _, a := range attachments {
		digest, err := a.Image.Digest()
		if err != nil {
			t.Fatal(err)
		}

		gone = append(gone, digest.String())
	}

	file := filepath.Join(layout.Name(), "index.json")

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}

	index.Manifests = slices.DeleteFunc(index.Manifests, func(d v1.Descriptor) bool { return slices.Contains(gone, d.Digest.String()) })

	if data, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// forge attaches a stranger's signature that says it is by the signer.
func forge(t *testing.T, layout rebuilt, signer, stranger *attest.Signer) {
	t.Helper()

	digest := digests(t, layout)[1]

	mine := attachmentOf(t, layout, digest, "https://sigstore.dev/cosign/sign/v1")

	before, err := layout.Attachments(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := attest.Sign(t.Context(), layout, stranger, ""); err != nil {
		t.Fatal(err)
	}

	after, err := layout.Attachments(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}

	theirs := after[slices.IndexFunc(after, func(a oci.Attachment) bool {
		return a.Tag == "" && !slices.ContainsFunc(before, func(b oci.Attachment) bool { return sameImage(t, a.Image, b.Image) })
	})]

	theirs.Image = edited(t, theirs.Image, nil, func(bundle []byte) []byte {
		return bytes.ReplaceAll(bundle, []byte(hint(t, theirs.Image)), []byte(hint(t, mine.Image)))
	})

	if err := layout.Attach(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
}

func sameImage(t *testing.T, a, b v1.Image) bool {
	t.Helper()

	x, err := a.Digest()
	if err != nil {
		t.Fatal(err)
	}

	y, err := b.Digest()
	if err != nil {
		t.Fatal(err)
	}

	return x == y
}

// bundleOf is the only layer of a referrer.
func bundleOf(t *testing.T, image v1.Image) []byte {
	t.Helper()

	layer, err := image.LayerByDigest(layerOf(t, image))
	if err != nil {
		t.Fatal(err)
	}

	content, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()

	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// hint is how a bundle names its key.
func hint(t *testing.T, image v1.Image) string {
	t.Helper()

	var bundle struct {
		VerificationMaterial struct {
			PublicKey struct{ Hint string }
		}
	}

	if err := json.Unmarshal(bundleOf(t, image), &bundle); err != nil || bundle.VerificationMaterial.PublicKey.Hint == "" {
		t.Fatalf("no hint: %v", err)
	}

	return bundle.VerificationMaterial.PublicKey.Hint
}

// edited is a referrer with another manifest, another bundle, or both; every digest is right.
func edited(t *testing.T, image v1.Image, manifest, bundle func([]byte) []byte) v1.Image {
	t.Helper()

	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}

	data := bundleOf(t, image)

	if bundle != nil {
		before, size := layerOf(t, image), len(data)
		data = bundle(data)

		digest, _, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}

		raw = bytes.ReplaceAll(raw, []byte(before.Hex), []byte(digest.Hex))
		raw = bytes.ReplaceAll(raw, fmt.Appendf(nil, `"size":%d`, size), fmt.Appendf(nil, `"size":%d`, len(data)))
	}

	if manifest != nil {
		raw = manifest(raw)
	}

	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	forged, err := partial.CompressedToImage(rawImage{raw, config, ggcrstatic.NewLayer(data, attest.BundleType)})
	if err != nil {
		t.Fatal(err)
	}

	return forged
}

// rawImage is an image of given bytes.
type rawImage struct {
	manifest, config []byte
	layer            v1.Layer
}

func (i rawImage) RawManifest() ([]byte, error)                           { return i.manifest, nil }
func (i rawImage) RawConfigFile() ([]byte, error)                         { return i.config, nil }
func (i rawImage) MediaType() (types.MediaType, error)                    { return types.OCIManifestSchema1, nil }
func (i rawImage) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return i.layer, nil }
