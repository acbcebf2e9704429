package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/attest"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/sums"
)

// UpdateSums makes the sums true of what signing added to the named layouts and files. Whatever else
// changed keeps its line, so that it still shows.
func (d *Dist) UpdateSums(ctx context.Context, names ...string) error {
	listed, err := d.sums()
	if err != nil {
		return fmt.Errorf("updating %s: %w", SumsName, err)
	}

	before := sums.Encode(listed)

	known := make(map[string]bool)
	for _, s := range listed {
		known[s.Name] = true
	}

	listed = slices.DeleteFunc(listed, func(s sums.Sum) bool {
		return slices.ContainsFunc(names, func(name string) bool { return s.Top() == name || isCompanion(s.Top(), name) })
	})

	for _, name := range names {
		present, err := d.present(ctx, name, known)
		if err != nil {
			return fmt.Errorf("updating %s: %w", SumsName, err)
		}

		listed = append(listed, present...)
	}

	after := sums.Encode(listed)
	if bytes.Equal(before, after) {
		return nil
	}

	return oci.ReplaceFile(d.Path(SumsName), 0o644, bytes.NewReader(after))
}

// sums reads the sums.
func (d *Dist) sums() ([]sums.Sum, error) {
	text, err := sums.ReadFile(d.Path(SumsName))
	if err != nil {
		return nil, err
	}

	listed, err := sums.Parse(text)
	if err != nil {
		return nil, attest.RefusedError{Reason: err}
	}

	return listed, nil
}

// isCompanion reports whether a file signs or attests another.
func isCompanion(file, other string) bool {
	return file == other+attest.SignatureSuffix || file == other+attest.StatementsSuffix
}

// present lists the files of a layout, or a file and what lies beside it for it. Blobs that are neither known
// nor attached to anything are what signing left when it was killed: no bundle would have them.
func (d *Dist) present(ctx context.Context, name string, known map[string]bool) ([]sums.Sum, error) {
	var files []sums.Sum

	attached, err := d.attachedBlobs(ctx, name)
	if err != nil {
		return nil, err
	}

	for _, top := range []string{name, name + attest.SignatureSuffix, name + attest.StatementsSuffix} {
		err := filepath.WalkDir(d.Path(top), func(path string, entry fs.DirEntry, err error) error {
			if err := errors.Join(err, ctx.Err()); err != nil || entry.IsDir() {
				return err
			}

			relative, err := filepath.Rel(d.Dir, path)
			if err != nil {
				return err
			}

			relative = filepath.ToSlash(relative)
			if strings.HasPrefix(relative, name+"/blobs/") && !known[relative] && !attached["sha256:"+entry.Name()] {
				return nil
			}

			digest, _, err := payload.DigestFile(path)
			if err != nil {
				return err
			}

			files = append(files, sums.Sum{Hex: strings.TrimPrefix(digest, "sha256:"), Name: relative})

			return nil
		})
		if err != nil && (top == name || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
	}

	return files, nil
}

// attachedBlobs returns the digests of what signatures and attestations in a layout consist of.
func (d *Dist) attachedBlobs(ctx context.Context, name string) (map[string]bool, error) {
	digests := make(map[string]bool)

	if !slices.Contains(d.Layouts(), name) {
		return digests, nil
	}

	layout, err := oci.OpenLayout(d.Path(name))
	if err != nil {
		return nil, err
	}

	subjects, err := layout.Subjects(ctx)
	if err != nil {
		return nil, err
	}

	for _, subject := range subjects {
		attachments, err := layout.Attachments(ctx, subject.Descriptor.Digest)
		if err != nil {
			return nil, err
		}

		for _, attachment := range attachments {
			digest, err := attachment.Image.Digest()
			if err != nil {
				return nil, err
			}

			manifest, err := attachment.Image.Manifest()
			if err != nil {
				return nil, err
			}

			digests[digest.String()], digests[manifest.Config.Digest.String()] = true, true
			for _, layer := range manifest.Layers {
				digests[layer.Digest.String()] = true
			}
		}
	}

	return digests, nil
}

// lists reports whether the sums list a layout or a file.
func (d *Dist) lists(name string) (bool, error) {
	listed, err := d.sums()

	return slices.ContainsFunc(listed, func(s sums.Sum) bool { return s.Top() == name }), err
}

// sumsAreSigned reports whether somebody signed the sums, which then must not change any more.
func (d *Dist) sumsAreSigned() bool {
	_, err := os.Stat(d.Path(SumsName) + attest.SignatureSuffix)

	return err == nil
}

// CheckSums compares every file that the sums list. The error names all that are not as listed.
func (d *Dist) CheckSums(ctx context.Context) error {
	reported := false

	err := d.checkSums(ctx, func(file string) bool {
		reported = reported || file == ReportName

		return true
	})
	if err == nil && !reported {
		// It says what there is to look at.
		return attest.RefusedError{Reason: fmt.Errorf("%s does not list %s", SumsName, ReportName)}
	}

	return err
}

// CheckContent compares what the build wrote into the named layouts and files. It
// passes over what signing changes: the index of a layout and what lies beside a file.
func (d *Dist) CheckContent(ctx context.Context, names ...string) error {
	return d.checkSums(ctx, func(file string) bool {
		top, inside, _ := strings.Cut(file, "/")
		signed := inside == "index.json" || strings.HasSuffix(file, attest.SignatureSuffix) || strings.HasSuffix(file, attest.StatementsSuffix)

		return !signed && slices.Contains(names, top)
	})
}

func (d *Dist) checkSums(ctx context.Context, wanted func(file string) bool) error {
	listed, err := d.sums()
	if err != nil {
		return err
	}

	var wrong sums.Differences

	for _, s := range listed {
		if err := ctx.Err(); err != nil {
			return err
		}

		if !wanted(s.Name) {
			continue
		}

		digest, _, err := payload.DigestFile(d.Path(filepath.FromSlash(s.Name)))

		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong.Missing(s.Name)
		case err != nil:
			return err
		case digest != "sha256:"+s.Hex:
			wrong.Altered(s.Name)
		}
	}

	if err := wrong.Err(); err != nil {
		return attest.RefusedError{Reason: fmt.Errorf("%s: %w", SumsName, err)}
	}

	return nil
}

// unlisted names what lies in the directory and is not in the sums, except for what signs them.
func (d *Dist) unlisted() ([]string, error) {
	listed, err := d.sums()
	if err != nil {
		return nil, err
	}

	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		return nil, err
	}

	var names []string

	for _, entry := range entries {
		name := entry.Name()
		known := name == SumsName || name == SumsName+attest.SignatureSuffix

		if !known && !slices.ContainsFunc(listed, func(s sums.Sum) bool { return s.Top() == name }) {
			names = append(names, name)
		}
	}

	return names, nil
}
