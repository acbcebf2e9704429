package airgap

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/sums"
)

// Verify holds every image of the bundle to a policy, and every file that is signed. The sums of the
// build have to be: all other files are in them. The reports are those of the images, then of the files.
func (b *Bundle) Verify(ctx context.Context, policy attest.Policy) ([]*attest.Report, error) {
	if b.withoutFiles {
		return nil, errors.New("the files of the bundle were not unpacked")
	}

	var reports []*attest.Report

	for _, store := range b.stores {
		report, err := attest.Verify(ctx, store, policy)
		if err != nil {
			return nil, b.shorten(err)
		}

		reports = append(reports, report)
	}

	for _, name := range b.signedFiles() {
		report, err := attest.VerifyFile(ctx, filepath.Join(b.dir, filepath.FromSlash(name)), policy)
		if err != nil {
			return nil, b.shorten(err)
		}

		report.Name = name
		reports = append(reports, report)
	}

	return reports, nil
}

// signedFiles names the files that have a signature, and the one that needs one.
func (b *Bundle) signedFiles() []string {
	names := []string{filesDir + sums.Name}

	for _, s := range b.sums {
		if name, ok := strings.CutSuffix(s.Name, attest.SignatureSuffix); ok && name != names[0] {
			names = append(names, name)
		}
	}

	return names
}

// shorten takes the directory that nobody knows out of a message.
func (b *Bundle) shorten(err error) error {
	return shortened{err, strings.ReplaceAll(err.Error(), b.dir+string(filepath.Separator), "")}
}

// shortened is an error with another message.
type shortened struct {
	error
	message string
}

func (s shortened) Error() string { return s.message }
func (s shortened) Unwrap() error { return s.error }

// named is a store under the name that its image has in the bundle.
type named struct {
	oci.Store
	name string
}

func (n named) Name() string { return n.name }
