package airgap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/sums"
)

// Bundle is a bundle that was read and is whole: every byte is what create would write of what is in it.
// Who made it is for Verify to say.
type Bundle struct {
	dir          string
	withoutFiles bool
	images       []Image
	stores       []oci.Store
	sums         []sums.Sum
}

// Option changes how a bundle is opened.
type Option func(*options)

type options struct{ withoutFiles bool }

// WithoutFiles leaves what is no image unpacked. It is looked at all the same, but Verify needs more.
func WithoutFiles() Option {
	return func(o *options) { o.withoutFiles = true }
}

// Open reads a bundle, which may be compressed, into a directory of its own below work, which Close
// removes. What is missing, altered or not expected is named in the error, which is a DamageError.
func Open(ctx context.Context, file, work string, opts ...Option) (*Bundle, error) {
	var chosen options
	for _, opt := range opts {
		opt(&chosen)
	}

	// A FIFO would block the open.
	if info, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("reading bundle: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading bundle %s: it is not a regular file", file)
	}

	content, _, err := oci.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading bundle %s: %w", file, err)
	}
	defer content.Close()

	dir, err := os.MkdirTemp(work, "cnibake-bundle-")
	if err != nil {
		return nil, fmt.Errorf("unpacking bundle: %w", err)
	}

	b := &Bundle{dir: dir, withoutFiles: chosen.withoutFiles}

	u, err := unpack(ctx, content, dir, chosen.withoutFiles)
	if err == nil {
		err = b.load(ctx, u)
	}

	if err != nil && ctx.Err() == nil && !isMachines(err) {
		err = DamageError{err}
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading bundle %s: %w", file, err), b.Close())
	}

	return b, nil
}

// isMachines reports whether an error is a fault of this machine, such as a full disk. A blob that is not
// there is the bundle's.
func isMachines(err error) bool {
	var fault *fs.PathError

	return errors.As(err, &fault) && !errors.Is(err, fs.ErrNotExist)
}

// DamageError says that a bundle is not as it was written.
type DamageError struct{ Reason error }

func (e DamageError) Error() string { return e.Reason.Error() }
func (e DamageError) Unwrap() error { return e.Reason }

// Close removes what was unpacked.
func (b *Bundle) Close() error { return os.RemoveAll(b.dir) }

// Images lists the images, in the order of the build.
func (b *Bundle) Images() []Image { return b.images }

// load checks what was unpacked. Whatever create derives from the rest is derived once more and compared.
func (b *Bundle) load(ctx context.Context, u *unpacked) error {
	if err := u.check(); err != nil {
		return err
	}

	for _, name := range []string{markerName, indexName, imagesName, filesDir + buildName, filesDir + sums.Name} {
		if u.text[name] == nil {
			return fmt.Errorf("%s is missing", name)
		}
	}

	if err := checkFiles(u.sums, u.text[filesDir+sums.Name]); err != nil {
		return err
	}

	build, err := parseBuild(u.text[filesDir+buildName])
	if err != nil {
		return err
	}

	if !u.modified.Equal(build.Created) {
		return fmt.Errorf("the times in it are not that of %s", buildName)
	}

	layouts, err := build.layouts()
	if err != nil {
		return err
	}

	var c contents

	for _, layout := range layouts {
		opened, err := oci.OpenLayout(b.dir, oci.WithName(layout.Image), oci.WithTitle("of the bundle"))
		if err != nil {
			return fmt.Errorf("%s: %w", indexName, b.shorten(err))
		}

		store := named{opened, layout.Image}

		if err := c.add(ctx, layout.Image, store); err != nil {
			return fmt.Errorf("%s: %w", indexName, b.shorten(err))
		}

		if err := layout.check(c.images[len(c.images)-1]); err != nil {
			return fmt.Errorf("%s: %w", layout.Image, err)
		}

		b.stores = append(b.stores, store)
	}

	b.images, b.sums = c.images, u.sums

	return compare(c, u)
}

// compare holds what create would derive from the contents to what the bundle has.
func compare(c contents, u *unpacked) error {
	members, err := c.members()
	if err != nil {
		return err
	}

	var wrong sums.Differences

	derived := make(map[string]bool)

	for _, m := range members {
		derived[m.name] = true

		if text, ok := u.text[m.name]; ok && hexSum(text) != m.hex {
			wrong.Altered(m.name)
		}
	}

	for _, s := range u.sums {
		if strings.HasPrefix(s.Name, blobsDir) && !derived[s.Name] {
			wrong.Extra(s.Name)
		}
	}

	return wrong.Err()
}
