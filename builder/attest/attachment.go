package attest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	ggcr "github.com/google/go-containerregistry/pkg/v1/types"
	cosignoci "github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/empty"
	ocisignature "github.com/sigstore/cosign/v2/pkg/oci/signature"

	"github.com/cnibake/cnibake/builder/oci"
)

const (
	// maxPieces is how many layers of an attachment a Talos node looks at.
	maxPieces = 100
	// maxPiece bounds one layer in bytes: a statement in an envelope, in base64, and what is around it.
	maxPiece = 2 * maxStatement
	// maxPiecesSize bounds all of them.
	maxPiecesSize = 2 * maxPiece
)

// piece is one signature, attestation or bundle: a layer of an attachment, or what lies beside a file.
type piece struct {
	// name says in messages where it is.
	name       string
	descriptor v1.Descriptor
	data       []byte
}

// pieces reads those layers of an attachment that are wanted; each must have its digest.
func pieces(a oci.Attachment, wanted func(mediaType string) bool) ([]piece, error) {
	manifest, err := a.Image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("reading what is attached to %s: %w", a.Subject, err)
	}

	var (
		all  []piece
		left = int64(maxPiecesSize)
	)

	for _, descriptor := range manifest.Layers {
		if !wanted(string(descriptor.MediaType)) {
			continue
		}

		if left -= descriptor.Size; descriptor.Size < 0 || descriptor.Size > maxPiece || left < 0 {
			return nil, refuse("blob %s, attached to %s, is too large", descriptor.Digest, a.Subject)
		}

		if len(all) == maxPieces {
			return nil, refuse("what is attached to %s has more than %d layers", a.Subject, maxPieces)
		}

		data, err := readBlob(a.Image, descriptor)
		if err != nil {
			return nil, fmt.Errorf("reading blob %s, attached to %s: %w", descriptor.Digest, a.Subject, err)
		}

		all = append(all, piece{"blob " + descriptor.Digest.String(), descriptor, data})
	}

	return all, nil
}

func readBlob(image v1.Image, descriptor v1.Descriptor) ([]byte, error) {
	layer, err := image.LayerByDigest(descriptor.Digest)
	if err != nil {
		return nil, err
	}

	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()

	data, err := io.ReadAll(io.LimitReader(content, descriptor.Size+1))
	if err != nil {
		return nil, err
	}

	got, size, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}

	if got != descriptor.Digest || size != descriptor.Size {
		return nil, refuse("it has %s instead: it was altered", got)
	}

	return data, nil
}

// signature returns a piece as cosign's library wants it.
func (p piece) signature() cosignoci.Signature {
	return ocisignature.New(static.NewLayer(p.data, p.descriptor.MediaType), p.descriptor)
}

// legacy returns the attachment under a legacy tag that holds all these signatures.
func legacy(subject v1.Hash, suffix string, signatures []cosignoci.Signature) (oci.Attachment, error) {
	var image v1.Image = empty.Signatures()

	for _, signature := range signatures {
		annotations, err := signature.Annotations()
		if err != nil {
			return oci.Attachment{}, err
		}

		mediaType, err := signature.MediaType()
		if err != nil {
			return oci.Attachment{}, err
		}

		image, err = mutate.Append(image, mutate.Addendum{Layer: signature, Annotations: annotations, MediaType: mediaType})
		if err != nil {
			return oci.Attachment{}, err
		}
	}

	return oci.Attachment{Subject: subject, Tag: oci.LegacyTag(subject, suffix), Image: image}, nil
}

// referrer returns the attachment that holds a bundle, as cosign writes it except for the time.
func referrer(subject v1.Descriptor, bundle []byte, predicateType string) (oci.Attachment, error) {
	configuration := []byte("{}")

	config, err := descriptorOf(configuration, "application/vnd.oci.empty.v1+json")
	if err != nil {
		return oci.Attachment{}, err
	}

	layer, err := descriptorOf(bundle, bundleType)
	if err != nil {
		return oci.Attachment{}, err
	}

	config.ArtifactType = bundleType
	annotations := map[string]string{contentKey: "dsse-envelope", predicateKey: predicateType}

	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     ggcr.OCIManifestSchema1,
		ArtifactType:  bundleType,
		Config:        config,
		Layers:        []v1.Descriptor{layer},
		Subject:       &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
		Annotations:   annotations,
	})
	if err != nil {
		return oci.Attachment{}, err
	}

	image, err := partial.CompressedToImage(&fixedImage{
		manifest: manifest, configuration: configuration, layer: static.NewLayer(bundle, bundleType),
	})

	return oci.Attachment{Subject: subject.Digest, ArtifactType: bundleType, Annotations: annotations, Image: image}, err
}

// Annotations by which cosign and others tell bundles apart without reading them.
const (
	contentKey   = "dev.sigstore.bundle.content"
	predicateKey = "dev.sigstore.bundle.predicateType"
)

func descriptorOf(data []byte, mediaType ggcr.MediaType) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(data))

	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: size}, err
}

// fixedImage is an image that consists of given bytes. The library's own ways of making images give
// them the configuration of a root file system.
type fixedImage struct {
	manifest, configuration []byte
	layer                   v1.Layer
}

var _ partial.CompressedImageCore = (*fixedImage)(nil)

func (i *fixedImage) MediaType() (ggcr.MediaType, error) { return ggcr.OCIManifestSchema1, nil }
func (i *fixedImage) RawManifest() ([]byte, error)       { return i.manifest, nil }
func (i *fixedImage) RawConfigFile() ([]byte, error)     { return i.configuration, nil }
func (i *fixedImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if digest, err := i.layer.Digest(); err != nil || digest != h {
		return nil, fmt.Errorf("no layer %s", h)
	}

	return i.layer, nil
}
