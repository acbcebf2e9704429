package builder

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
)

// Output takes the artifacts of one profile.
type Output struct {
	directory *directory

	mu        sync.Mutex
	artifacts []Artifact
}

// Work is a directory for temporary files on the output's file system; it goes with the build.
func (o *Output) Work() string {
	return o.directory.staging
}

// File writes one file of the output, hashing it on the way.
func (o *Output) File(ctx context.Context, artifact Artifact, write func(io.Writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	written, err := o.directory.writeFile(artifact.Name, write)
	if err != nil {
		return err
	}

	artifact.Digest, artifact.Size = written.digest, written.size
	o.add(artifact)

	return nil
}

// Layout writes an OCI image layout with the target's images.
func (o *Output) Layout(ctx context.Context, name, tag string, annotations map[string]string, variants []oci.Variant) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	dir := filepath.Join(o.directory.staging, name)
	if err := oci.WriteLayout(dir, tag, annotations, variants); err != nil {
		return err
	}

	artifact := Artifact{Name: name, Kind: KindOCILayout}

	for _, variant := range variants {
		described, err := describe(variant)
		if err != nil {
			return fmt.Errorf("describing %s: %w", name, err)
		}

		artifact.Images = append(artifact.Images, described)
	}

	var files []fileSum

	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		digest, size, err := payload.DigestFile(path)
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(o.directory.staging, path)
		if err != nil {
			return err
		}

		artifact.Size += size
		files = append(files, fileSum{filepath.ToSlash(relative), digest, size})

		return nil
	})
	if err != nil {
		return fmt.Errorf("reading back %s: %w", name, err)
	}

	o.directory.add(files...)
	o.add(artifact)

	return nil
}

func (o *Output) add(artifact Artifact) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.artifacts = append(o.artifacts, artifact)
}

// describe lists the digests and sizes of an image.
func describe(variant oci.Variant) (ImageReport, error) {
	digest, err := variant.Image.Digest()
	if err != nil {
		return ImageReport{}, err
	}

	report := ImageReport{Arch: variant.Arch, Digest: digest.String()}

	layers, err := variant.Image.Layers()
	if err != nil {
		return ImageReport{}, err
	}

	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return ImageReport{}, err
		}

		diffID, err := layer.DiffID()
		if err != nil {
			return ImageReport{}, err
		}

		size, err := layer.Size()
		if err != nil {
			return ImageReport{}, err
		}

		mediaType, err := layer.MediaType()
		if err != nil {
			return ImageReport{}, err
		}

		report.Layers = append(report.Layers, LayerReport{
			MediaType: string(mediaType), Digest: digest.String(), DiffID: diffID.String(), Size: size,
		})
	}

	return report, nil
}
