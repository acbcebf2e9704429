package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// examineHidden finds a plugin of our set that is hidden by another copy in a directory searched before.
func (d *doctor) examineHidden(to *[]Finding, name string, tried []search) {
	first := tried[0]
	if !d.brings(name) || d.Distro.Owns(name) || d.isOurs(name, first) {
		return
	}

	for _, behind := range tried[1:] {
		if d.isOurs(name, behind) {
			s := todo("Remove %s, or search %s before it.", first.path, filepath.Dir(behind.path))
			if d.Distro.OverlayUpper == "" { // there a deletion would hide what the image has, for good
				s.run("rm", d.inShell(d.realEntry(first.path)))
			}

			d.report(to, Shadowed, s, "%s hides %s, which is our plugin set's", first.path, behind.path)
		}
	}
}

// examineShadows finds what hides baked plugins in the upper directory of an overlay.
func (d *doctor) examineShadows(ctx context.Context, to *[]Finding) error {
	upper := d.Upper

	if known := d.Distro.OverlayUpper; upper == "" && known != "" {
		if f, err := d.node.resolve(known); err == nil {
			upper = f.real
		}
	}

	if upper == "" {
		return nil
	}

	var failed error

	for _, dir := range d.BinDirs {
		dest := d.real(dir)

		u, err := stage.Unshadow(ctx, stage.UnshadowOptions{Source: d.Source, Dest: dest, Upper: upper, Distro: d.Distro})
		if err != nil {
			failed = err // this directory may not be on that overlay

			continue
		}

		for _, h := range u.Plugins {
			if h.Shadow == stage.Same {
				continue // it hides the next image's only; verify says so
			}

			s := todo("Remove what hides baked plugins, then reboot the node.")
			d.report(to, Shadowed, s.run("install-cni-plugins", "unshadow", "--source", d.Source, "--dest", dest, "--upper", upper, "--yes"),
				"%s hides the %s that is baked into the node image (%s)", h.Path, h.Name, string(h.Shadow))
		}
	}

	if failed != nil && d.Upper != "" && len(d.BinDirs) == 1 {
		return fmt.Errorf("looking for shadows in %s: %w", d.Upper, failed)
	}

	return nil
}

// isOurs reports whether a file is of our plugin set: the payload's, or one that the manifest beside
// it lists.
func (d *doctor) isOurs(name string, s search) bool {
	if s.err != nil || !s.file.isRegular() {
		return false
	}

	m, err := payload.ReadManifest(filepath.Join(d.real(filepath.Dir(s.path)), payload.ManifestName))
	there, listed := m.Lookup(name)
	mine, carried := d.payload.Lookup(name)

	if s.file.stat.Size != there.Size && s.file.stat.Size != mine.Size {
		return false
	}

	digest, _, err2 := payload.DigestFile(s.file.real)

	return err2 == nil && (err == nil && listed && there.Digest == digest || carried && mine.Digest == digest)
}
