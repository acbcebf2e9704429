package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

// State is what verification finds of a plugin.
type State string

// The states of a verification.
const (
	Right         State = "right"
	NotThere      State = "missing"
	Altered       State = "altered"
	NotExecutable State = "not executable"
	Hidden        State = "hidden"
	PlatformOwned State = "platform-owned"
	Unknown       State = "unknown"
)

// VerifyOptions say what to verify and against what.
type VerifyOptions struct {
	// Source is the payload to verify against; where it does not exist, the manifest beside the
	// files is what they are held to.
	Source, Dest string
	// Upper is the upper directory of the overlay that Dest lies on; empty where it is on none.
	Upper string
	Selection
	Distro          distro.Distro
	TakeOver, Exact bool

	system system
}

// Check is what was found of one plugin.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Digest string `json:"digest,omitempty"`
	// Want is the digest that the name should have.
	Want   string `json:"want,omitempty"`
	Shadow Shadow `json:"shadow,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Verification is the outcome of Verify.
type Verification struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"`
	Dest          string `json:"dest"`
	// Against is the directory whose manifest the files were held to.
	Against string   `json:"against"`
	Pin     string   `json:"pin,omitempty"`
	Good    bool     `json:"good"`
	Plugins []Check  `json:"plugins"`
	Notes   []string `json:"notes"`
}

// Verify compares a bin directory with a payload and, given the upper directory of its overlay,
// finds what hides baked files. An error means that it cannot be told.
func Verify(ctx context.Context, o VerifyOptions) (*Verification, error) {
	v := &Verification{SchemaVersion: 1, Operation: "verify", Dest: o.Dest, Good: true, Plugins: []Check{}, Notes: []string{}}

	dst, err := o.system.openDirectory(o.Dest)
	if err != nil {
		return v, errors.New(sentence(err))
	}
	defer dst.close()

	src, err := o.expected(dst)
	if err != nil {
		return v, err
	}
	defer src.dir.close()

	v.Against, v.Pin = src.dir.path, src.manifest.Pin.Version

	up := upper{}

	if o.Upper != "" {
		if up, err = o.system.openUpper(o.Upper, dst); err != nil {
			return v, errors.New(sentence(err))
		}
		defer up.close()
	} else if overlay, ok := dst.overlayOf(); ok && overlay.upper != "" {
		v.Notes = append(v.Notes, fmt.Sprintf("%s is on an overlay: --upper %s finds what hides baked files", o.Dest, overlay.upper))
	}

	o.check(ctx, v, dst, src, up)

	return v, ctx.Err()
}

// expected opens what the files are held to: the source, or the bin directory's own manifest.
func (o *VerifyOptions) expected(dst *directory) (*source, error) {
	var missing *missingSourceError

	src, err := o.system.openSource(o.Source)
	if err == nil {
		return src, nil
	}

	if !errors.As(err, &missing) {
		var bad *badManifestError
		if errors.As(err, &bad) {
			return nil, bad
		}

		return nil, errors.New(sentence(err))
	}

	m, err := payload.ReadManifest(dst.join(payload.ManifestName))
	if err != nil {
		return nil, fmt.Errorf("nothing to verify against: there is no %s, and %s has no usable manifest: %w", o.Source, o.Dest, err)
	}

	own, err := o.system.openDirectory(o.Dest)
	if err != nil {
		return nil, errors.New(sentence(err))
	}

	return &source{dir: own, manifest: m, verified: true, plugins: m.Plugins}, nil
}

func (o *VerifyOptions) check(ctx context.Context, v *Verification, dst *directory, src *source, up upper) {
	r := rules{
		update: Always, distro: o.Distro, takeOver: o.TakeOver, exact: o.Exact, payload: src.manifest,
		ours: func(string, string) bool { return false },
	}
	r.baked, _ = payload.ReadManifest(dst.join(payload.ManifestName))

	baked, doubt := payload.Manifest{}, ""
	if o.Upper != "" {
		if baked, doubt = up.baked(dst); doubt != "" {
			v.Notes = append(v.Notes, doubt)
		}

		if up.blocked != "" {
			v.Notes = append(v.Notes, up.blocked)
			v.Good = false
		}
	}

	plugins := o.wanted(src, baked)
	v.Plugins = make([]Check, len(plugins))

	each(defaultWorkers(), len(plugins), func(i int) {
		v.Plugins[i] = o.checkOne(ctx, r, dst, src, plugins[i])

		if o.Upper != "" {
			o.checkShadow(ctx, &v.Plugins[i], up, baked, src.manifest)
		}
	})

	for _, c := range v.Plugins {
		v.Good = v.Good && (c.State == Right || c.State == PlatformOwned)
	}
}

// wanted lists the payload's plugins, and those that only the image's own manifest has.
func (o *VerifyOptions) wanted(src *source, baked payload.Manifest) []payload.Plugin {
	var plugins []payload.Plugin

	for _, p := range src.plugins {
		if o.selects(p.Name) {
			plugins = append(plugins, p)
		}
	}

	for _, p := range baked.Plugins {
		if _, carried := src.lookup(p.Name); !carried && o.selects(p.Name) {
			plugins = append(plugins, p)
		}
	}

	slices.SortFunc(plugins, func(a, b payload.Plugin) int { return strings.Compare(a.Name, b.Name) })

	return plugins
}

func (o *VerifyOptions) checkOne(ctx context.Context, r rules, dst *directory, src *source, p payload.Plugin) Check {
	c := Check{Name: p.Name, State: Unknown}

	if _, carried := src.lookup(p.Name); carried {
		digest, err := src.digestOf(ctx, p)
		if err != nil {
			c.Reason = sentence(err)

			return c
		}

		p.Digest = digest
	}

	c.Want = p.Digest

	t, err := dst.look(ctx, p.Name)
	if err != nil {
		c.Reason = sentence(err)

		return c
	}

	c.Digest = t.digest

	switch ok, reason := r.right(p, t.digest); {
	case t.kind == absent:
		c.State = NotThere
	case t.kind == symlink:
		c.State, c.Reason = Altered, "it is a symlink to "+t.link
	case t.kind != regular:
		c.State, c.Reason = Altered, fmt.Sprintf("it is %s", t.kind)
	case t.stat.Mode&0o555 != 0o555:
		c.State, c.Reason = NotExecutable, fmt.Sprintf("it has mode %04o", t.stat.Mode&0o7777)
	case t.err != nil:
		c.Reason = sentence(t.err)
	case !ok:
		c.State = Altered
	case !t.runnable():
		c.State, c.Reason = Altered, fmt.Sprintf("others can change it: it has mode %04o", t.stat.Mode&0o7777)
	default:
		c.State, c.Reason = Right, reason
	}

	if c.State != Right && t.kind != absent && r.distro.Owns(p.Name) && !r.takeOver {
		c.Reason = strings.TrimSpace(fmt.Sprintf("%s, left to %s %s", c.State, r.distro.Name, c.Reason))
		c.State = PlatformOwned
	}

	return c
}

func (o *VerifyOptions) checkShadow(ctx context.Context, c *Check, up upper, baked, carried payload.Manifest) {
	shadow, t, found, err := up.shadowOf(ctx, c.Name, sameDigests(c.Name, baked, carried)...)
	if err != nil {
		c.State, c.Reason = Unknown, sentence(err)

		return
	}

	b, isBaked := baked.Lookup(c.Name)

	switch {
	case !found:
	case shadow == Whiteout:
		c.Shadow, c.Reason = Whiteout, fmt.Sprintf("the whiteout %s hides the image's file", up.dir.join(c.Name))
	case !isBaked:
	case shadow == Same:
		c.Shadow = Same
		c.Reason = fmt.Sprintf("%s is a same shadow: harmless today, but it will hide the next image's file", up.dir.join(c.Name))
	default:
		c.Shadow, c.State = Differing, Hidden
		c.Reason = fmt.Sprintf("%s (%s) hides the image's file (%s)", up.dir.join(c.Name), Short(t.describe()), Short(b.Digest))
	}
}
