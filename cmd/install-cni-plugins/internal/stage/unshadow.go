package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

// UnshadowOptions say where to look for what hides baked files.
type UnshadowOptions struct {
	// Source is a payload whose names are looked for too, among whiteouts; it need not exist.
	Source, Dest string
	// Upper is the upper directory of the overlay that Dest lies on.
	Upper string
	Selection
	// Distro adds the names that the distribution bakes into its images itself.
	Distro distro.Distro
	// Act removes what is found; without it, it is only reported.
	Act bool

	system system
}

// Hiding is an entry of the upper directory that hides a baked name.
type Hiding struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Shadow Shadow `json:"shadow"`
	// What is what the entry is: a digest, a link's target or a kind of file.
	What    string `json:"what"`
	Removed bool   `json:"removed"`
	// Reason says why it stays although it hides a baked name.
	Reason string `json:"reason,omitempty"`
}

// Unshadowing is the outcome of Unshadow.
type Unshadowing struct {
	SchemaVersion int      `json:"schemaVersion"`
	Operation     string   `json:"operation"`
	Dest          string   `json:"dest"`
	Upper         string   `json:"upper"`
	Changed       bool     `json:"changed"`
	Plugins       []Hiding `json:"plugins"`
	Notes         []string `json:"notes"`
}

// Good reports whether nothing stays that should have gone.
func (u *Unshadowing) Good() bool {
	return !slices.ContainsFunc(u.Plugins, func(h Hiding) bool { return h.Reason != "" })
}

// Unshadow finds, and with Act removes, exactly the entries of an overlay's upper directory that
// hide a baked name. It works in the upper directory itself, because a deletion through the overlay
// leaves a whiteout; the overlay shows the baked files when it is mounted the next time.
func Unshadow(ctx context.Context, o UnshadowOptions) (*Unshadowing, error) {
	out := &Unshadowing{SchemaVersion: 1, Operation: "unshadow", Dest: o.Dest, Upper: o.Upper, Plugins: []Hiding{}, Notes: []string{}}

	dst, err := o.system.openDirectory(o.Dest)
	if err != nil {
		return out, errors.New(sentence(err))
	}
	defer dst.close()

	if !dst.onOverlay() {
		return out, fmt.Errorf("%s is not on an overlay, so nothing is hidden there", o.Dest)
	}

	up, err := o.system.openUpper(o.Upper, dst)
	if err != nil {
		return out, errors.New(sentence(err))
	}
	defer up.close()

	if up.blocked != "" {
		out.Notes = append(out.Notes, up.blocked+"; it is not removed here, because more than plugins depends on it")
	}

	if up.dir == nil {
		return out, nil
	}

	baked, doubt := up.baked(dst)
	if doubt != "" {
		out.Notes = append(out.Notes, doubt+"; "+o.evidence())
	}

	var carried payload.Manifest

	if src, err := o.system.openSource(o.Source); err == nil {
		carried = src.manifest
		src.dir.close()
	}

	for _, name := range o.names(baked, carried) {
		h, err := o.unshadow(ctx, dst, up, name, baked, carried)
		if err != nil {
			return out, errors.New(sentence(err))
		}

		if h.Name != "" {
			out.Plugins = append(out.Plugins, h)
			out.Changed = out.Changed || h.Removed
		}
	}

	if out.Changed {
		if err := up.dir.sync(); err != nil {
			return out, errors.New(sentence(err))
		}
	}

	return out, nil
}

// names lists what may be baked: the image's manifest says so of a name, or the distribution; and
// a whiteout under a name of the payload says it by itself.
func (o *UnshadowOptions) names(baked, carried payload.Manifest) []string {
	names := append(baked.Names(), carried.Names()...)
	names = append(names, o.Distro.PlatformOwned...)
	names = append(names, payload.ManifestName)

	slices.Sort(names)
	names = slices.Compact(names)

	return slices.DeleteFunc(names, func(name string) bool {
		return name != payload.ManifestName && !o.selects(name)
	})
}

// evidence says what tells that an entry hides something where the image's manifest does not.
func (o *UnshadowOptions) evidence() string {
	if len(o.Distro.PlatformOwned) == 0 {
		return "files stay, only whiteouts can be told to hide something"
	}

	return "of files, only those with names that " + o.Distro.Name + " bakes itself can be told to hide something"
}

func (o *UnshadowOptions) unshadow(ctx context.Context, dst *directory, up upper, name string, baked, carried payload.Manifest) (Hiding, error) {
	shadow, t, found, err := up.shadowOf(ctx, name, sameDigests(name, baked, carried)...)
	if err != nil || !found {
		return Hiding{}, err
	}

	_, isBaked := baked.Lookup(name)

	if shadow != Whiteout && !isBaked && !o.Distro.Owns(name) {
		return Hiding{}, nil // nothing says that it hides anything
	}

	h := Hiding{Name: name, Path: up.dir.join(name), Shadow: shadow, What: t.describe()}
	if h.What == "" {
		h.What = t.kind.String()
	}

	if t.kind == folder {
		h.Reason = "it is a directory: see what it holds and remove it by hand"

		return h, nil
	}

	if !t.isShown(ctx, dst, name) {
		h.Reason = fmt.Sprintf("%s shows something else: either %s is not the upper directory of its overlay, or it was changed since the last boot", dst.path, o.Upper)

		return h, nil
	}

	if !o.Act {
		return h, nil
	}

	if err := up.dir.unlink(name); err != nil {
		return h, fmt.Errorf("%s", sentence(err))
	}

	h.Removed = true

	return h, nil
}
