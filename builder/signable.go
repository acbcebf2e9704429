package builder

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
)

// Signable is what can be signed, attested and verified: an image in a layout or a registry, a file, or
// everything that a build wrote.
type Signable struct {
	// Dist is the build's output: the whole of what is signed when Store and File are empty, or else what
	// it is a part of. It is nil for what belongs to no build.
	Dist *Dist
	// Store holds an image.
	Store oci.Store
	// Repository is what the image is called in a registry; empty in a layout.
	Repository string
	// File is a path.
	File string

	// part is the name of what is signed in Dist.
	part string
}

// Signed says what signing or attesting did to one image or file.
type Signed struct {
	Name     string        `json:"name"`
	Subjects []attest.Done `json:"subjects"`
}

// InDist returns the same, as a part of the build's output that the path lies in, if it is one.
func (s Signable) InDist(path string) (Signable, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Signable{}, err
	}

	dir, name := filepath.Dir(absolute), filepath.Base(absolute)
	if !IsDist(dir) {
		return s, nil
	}

	dist, err := OpenDist(dir)
	if err != nil {
		return Signable{}, err
	}

	listed, err := dist.lists(name)
	if listed {
		s.Dist, s.part = dist, name
	}

	return s, err
}

// Whole reports whether it is a build's whole output.
func (s Signable) Whole() bool { return s.Store == nil && s.File == "" }

// Sign signs it. Of a build's output every image and archive is signed, and the sums last.
func (s Signable) Sign(ctx context.Context, signer *attest.Signer) ([]Signed, error) {
	if s.Whole() {
		if err := s.checkOthers(signer, append(s.Dist.Archives(), SumsName)...); err != nil {
			return nil, err
		}
	}

	signed, err := s.change(ctx,
		func(store oci.Store) ([]attest.Done, error) { return attest.Sign(ctx, store, signer, s.Repository) },
		func(path string) (attest.Done, error) { return attest.SignFile(ctx, path, signer) },
	)
	if err != nil || !s.Whole() {
		return signed, err
	}

	return s.signSums(ctx, signer, signed)
}

// Attest signs statements and attaches each to what it is about. Sums that were signed are signed anew.
func (s Signable) Attest(ctx context.Context, signer *attest.Signer, statements []attest.Statement) ([]Signed, error) {
	again := s.Whole() && s.Dist.sumsAreSigned()
	if again {
		if err := s.checkOthers(signer, SumsName); err != nil {
			return nil, err
		}
	}

	signed, err := s.change(ctx,
		func(store oci.Store) ([]attest.Done, error) { return attest.Attest(ctx, store, signer, statements) },
		func(path string) (attest.Done, error) { return attest.AttestFile(ctx, path, signer, statements) },
	)
	if err != nil || !again {
		return signed, err
	}

	return s.signSums(ctx, signer, signed)
}

// checkOthers refuses, before anything changes, what would leave somebody else's signatures worthless.
func (s Signable) checkOthers(signer *attest.Signer, names ...string) error {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, s.Dist.Path(name))
	}

	return attest.CheckOthers(signer, paths...)
}

func (s Signable) signSums(ctx context.Context, signer *attest.Signer, signed []Signed) ([]Signed, error) {
	path := s.Dist.Path(SumsName)
	done, err := attest.SignFile(ctx, path, signer)

	return append(signed, Signed{path, []attest.Done{done}}), err
}

// change does one thing to every image and another to every file, and enters in the sums of a build what
// that added. What is not as it was built is refused: whoever altered it must not get it signed.
func (s Signable) change(ctx context.Context, image func(oci.Store) ([]attest.Done, error), file func(path string) (attest.Done, error)) ([]Signed, error) {
	if s.part != "" && s.Dist.sumsAreSigned() {
		return nil, fmt.Errorf("%s in %s is signed, and would no longer be true: give the whole directory instead, or remove %s first",
			SumsName, s.Dist.Dir, SumsName+attest.SignatureSuffix)
	}

	names := []string{s.part}
	if s.Whole() {
		names = append(s.Dist.Layouts(), s.Dist.Archives()...)
	}

	if s.Dist != nil {
		if err := s.Dist.asBuilt(ctx, names); err != nil {
			return nil, err
		}
	}

	var all []Signed

	err := s.each(func(store oci.Store, path string) error {
		if store != nil {
			done, err := image(store)
			all = append(all, Signed{store.Name(), done})

			return err
		}

		done, err := file(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}

		all = append(all, Signed{path, []attest.Done{done}})

		return nil
	})
	if s.Dist == nil {
		return all, err
	}

	// After a fault or an interruption, too: what was signed until then is no longer what the sums say.
	if failed := s.Dist.UpdateSums(context.WithoutCancel(ctx), names...); err == nil {
		err = failed
	} else if failed != nil {
		err = fmt.Errorf("%w, and then %w", err, failed)
	}

	return all, err
}

// each visits every image and every archive.
func (s Signable) each(visit func(store oci.Store, path string) error) error {
	if !s.Whole() {
		return visit(s.Store, s.File)
	}

	for _, name := range s.Dist.Layouts() {
		layout, err := oci.OpenLayout(s.Dist.Path(name))
		if err != nil {
			return err
		}

		if err := visit(layout, ""); err != nil {
			return err
		}
	}

	for _, name := range s.Dist.Archives() {
		if err := visit(nil, s.Dist.Path(name)); err != nil {
			return err
		}
	}

	return nil
}

// Verify holds it to a policy. Of a build's output the sums come first: they say which file it is that
// was altered.
func (s Signable) Verify(ctx context.Context, policy attest.Policy) ([]*attest.Report, error) {
	var reports []*attest.Report

	if s.Whole() {
		sums, err := attest.VerifyFile(ctx, s.Dist.Path(SumsName), policy)
		if err != nil {
			return nil, err
		}

		if err := s.Dist.CheckSums(ctx); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", s.Dist.Dir, err)
		}

		unlisted, err := s.Dist.unlisted()
		if err != nil {
			return nil, fmt.Errorf("verifying %s: %w", s.Dist.Dir, err)
		}

		for _, name := range unlisted {
			sums.Warnings = append(sums.Warnings, s.Dist.Path(name)+" is not of the build: nobody signed it")
		}

		reports = append(reports, sums)
	}

	err := s.each(func(store oci.Store, path string) error {
		var (
			report *attest.Report
			err    error
		)

		if store != nil {
			report, err = attest.Verify(ctx, store, policy)
		} else {
			report, err = attest.VerifyFile(ctx, path, policy)
		}

		reports = append(reports, report)

		return err
	})

	return reports, err
}
