package catalog

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/blang/semver/v4"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"gopkg.in/yaml.v3"

	"github.com/cnibake/cnibake/builder/oci"
)

const manifestName = "manifest.yaml"

// Extension is an extension image that a catalogue can list.
type Extension struct {
	Entry
	metadata extensions.Metadata
}

// Describe reads an extension. tagged is REPOSITORY:TAG, which need not be where it was read from.
func Describe(ctx context.Context, store oci.Store, tagged string) (*Extension, error) {
	subjects, err := store.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	extension := &Extension{}

	err = eachImage(subjects, func(image v1.Image) error {
		metadata, err := readMetadata(ctx, image)
		if err != nil {
			return err
		}

		if extension.metadata != (extensions.Metadata{}) && extension.metadata != metadata {
			return errors.New("its images for different architectures describe different extensions")
		}

		extension.metadata = metadata

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading extension %s: %w", store.Name(), err)
	}

	extension.Entry = Entry{
		Line:        tagged + "@" + subjects[0].Descriptor.Digest.String(),
		Author:      extension.metadata.Author,
		Description: extension.metadata.Description,
	}

	if _, err := extension.tag(); err != nil {
		return nil, err
	}

	return extension, nil
}

func readMetadata(ctx context.Context, image v1.Image) (metadata extensions.Metadata, err error) {
	files, err := readFiles(ctx, image, manifestName)
	if err != nil {
		return metadata, err
	}

	data := files[manifestName]
	if data == nil {
		return metadata, fmt.Errorf("there is no %s: it is not a Talos extension", manifestName)
	}

	defer recoverAs(manifestName, &err)

	var manifest extensions.Manifest
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		return metadata, fmt.Errorf("reading %s: %w", manifestName, err)
	}

	if manifest.Metadata.Name == "" {
		return metadata, fmt.Errorf("%s does not name the extension", manifestName)
	}

	return manifest.Metadata, nil
}

// recoverAs turns a panic of a parser that was fed an untrusted file into an error.
func recoverAs(file string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("reading %s: the parser gave up: %v", file, r)
	}
}

var releasePattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+\.[0-9]+)?$`)

// CheckRelease refuses what is not the name of a Talos release, which becomes the image's tag.
func CheckRelease(talos string) error {
	if !releasePattern.MatchString(talos) {
		return fmt.Errorf("talos %q is not a release such as v1.13.9", talos)
	}

	return nil
}

// CheckTalos says why the extension is not for a Talos release; it asks Talos's own code, as Factory does when
// it builds an image.
func (e *Extension) CheckTalos(talos string) (err error) {
	if err := CheckRelease(talos); err != nil {
		return err
	}

	version, err := semver.Parse(talos[1:])
	if err != nil {
		return fmt.Errorf("talos %q: %w", talos, err)
	}

	defer recoverAs(manifestName, &err)

	return extensions.New("", "", extensions.Manifest{Metadata: e.metadata}).
		Validate(extensions.WithValidateConstraints(), extensions.WithTalosVersion(&version))
}
