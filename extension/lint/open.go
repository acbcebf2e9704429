package lint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cnibake/cnibake/builder/oci"
)

// open reads an artifact, recognised by content.
func open(ctx context.Context, artifact, work string, pull func(context.Context, string) (oci.Subject, error)) (*contents, error) {
	c := &contents{name: artifact}
	r := &reader{work: work}

	info, err := os.Stat(artifact)

	switch {
	case errors.Is(err, os.ErrNotExist) && oci.LooksRemote(artifact) && pull != nil:
		err = c.readRegistry(ctx, r, artifact, pull)
	case err != nil:
		return nil, fmt.Errorf("opening artifact: %w", err)
	case info.IsDir() && oci.IsLayout(artifact):
		c.kind = KindLayout
		err = c.readLayout(ctx, r, artifact)
	case info.IsDir():
		c.kind = KindDirectory
		err = c.readDirectory(ctx, r, artifact)
	case info.Mode().IsRegular():
		err = c.readFile(ctx, r, artifact)
	default:
		err = errors.New("neither a file nor a directory")
	}

	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", artifact, err)
	}

	return c, nil
}

func (c *contents) problem(rule, path, arch, format string, args ...any) {
	c.problems = append(c.problems, problem{rule, path, arch, fmt.Sprintf(format, args...)})
}

func (c *contents) readDirectory(ctx context.Context, r *reader, dir string) error {
	t, err := r.readDirectory(ctx, dir)
	if err != nil {
		return err
	}

	c.trees = append(c.trees, t)

	return nil
}

func (c *contents) readFile(ctx context.Context, r *reader, name string) error {
	content, compression, err := oci.Open(name)
	if err != nil {
		return err
	}
	defer content.Close()

	c.kind = KindTar
	t := &tree{}
	isLayout, isDocker := false, false

	err = r.readTree(ctx, content, func(e *entry) {
		isLayout = isLayout || e.path == "oci-layout"
		isDocker = isDocker || e.path == "manifest.json"
		t.entries = append(t.entries, e)
	})

	switch {
	case err != nil && !isDamage(err):
		return err
	case err != nil && len(t.entries) == 0:
		return fmt.Errorf("neither a tar archive, an OCI layout nor an extension's directory: %w", err)
	case err != nil:
		c.problem("tar-damaged", "", "", "after %d entries: %v", len(t.entries), err)
	}

	if isLayout || isDocker {
		return c.readImageArchive(ctx, r, name, isLayout)
	}

	if compression != oci.None {
		c.problem("tar-compressed", "", "", "the file is %s", compressionName(compression))
	}

	t.finish()
	c.trees = append(c.trees, t)

	return nil
}

// readImageArchive reads the images in an archive that no Talos flow takes, to say what else is wrong.
func (c *contents) readImageArchive(ctx context.Context, r *reader, name string, isLayout bool) error {
	c.kind = KindArchive
	c.problems = nil

	if !isLayout {
		c.problem("tar-image-archive", "", "", "the file is an archive of `docker save`")

		return nil
	}

	c.problem("tar-image-archive", "", "", "the file is an archive of an OCI layout: unpack it for ociPath")

	dir := filepath.Join(r.work, "layout")
	if err := oci.UnpackFile(ctx, name, dir); err != nil {
		if !isDamage(err) {
			return err
		}

		c.problem("tar-damaged", "", "", "%v", err)

		return nil
	}

	return c.readLayout(ctx, r, dir)
}
