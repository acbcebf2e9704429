package stage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

// Update says what happens to a name that has a file which is not right.
type Update string

// The update policies.
const (
	// Always replaces every file that is not right.
	Always Update = "always"
	// Owned replaces what we wrote and nobody changed since.
	Owned Update = "owned"
	// Missing writes absent names only.
	Missing Update = "missing"
)

// ParseUpdate returns the policy of that name.
func ParseUpdate(s string) (Update, error) {
	if u := Update(s); slices.Contains([]Update{Always, Owned, Missing}, u) {
		return u, nil
	}

	return "", fmt.Errorf("unknown update policy %q: known are always, owned, missing", s)
}

// Selection limits an operation to some plugin names.
type Selection struct {
	// Only are the names to take; empty takes all. Skip are taken out of them.
	Only, Skip []string
}

func (s Selection) selects(name string) bool {
	return (len(s.Only) == 0 || slices.Contains(s.Only, name)) && !slices.Contains(s.Skip, name)
}

// verdict is what is to become of one name.
type verdict struct {
	result Result
	// write says that the plugin has to be written; result then tells what that will have done.
	write  bool
	plugin payload.Plugin
	target target
	// change is what the record says of the write, where there is a record.
	change *change
	// made says that the write happened.
	made bool
	// oldMode is the mode of the target where it had to be made readable for its backup.
	oldMode *uint32
}

// rules are all that decides about a name, besides what has it now.
type rules struct {
	update   Update
	distro   distro.Distro
	takeOver bool
	exact    bool
	// inPlace is set where the source is the destination: the files are then only held to their
	// manifest.
	inPlace bool
	payload payload.Manifest
	// baked is the manifest that lies beside the files in the destination.
	baked payload.Manifest
	// ours reports whether a digest under a name is one we wrote.
	ours func(name, digest string) bool
}

// right reports whether a digest is what a name should have, and if so why where that is not plain.
func (r rules) right(p payload.Plugin, digest string) (ok bool, reason string) {
	if digest == p.Digest {
		return true, ""
	}

	if b, found := r.baked.Lookup(p.Name); found && !r.exact && b.Digest == digest && r.payload.SamePin(r.baked) {
		return true, "same pin, other build"
	}

	return false, ""
}

// judge decides about one name. p has the digest that the name is to have.
func (r rules) judge(p payload.Plugin, t target) verdict {
	v := verdict{plugin: p, target: t, result: Result{Name: p.Name}}

	switch t.kind {
	case absent:
		if r.inPlace {
			return v.fail("it is missing")
		}

		v.result.Action, v.result.New, v.write = Installed, p.Digest, true

		return v
	case regular, symlink:
	default:
		return v.fail(notPlugin(p.Name, t.kind))
	}

	v.result.Old = t.describe()

	if t.kind == regular && t.digest != "" {
		if ok, reason := r.right(p, t.digest); ok && t.runnable() {
			v.result.Action, v.result.New, v.result.Reason = Unchanged, t.digest, reason

			return v
		}
	}

	ours := t.kind == regular && r.ours(p.Name, t.digest)
	v.result.Foreign = !ours

	switch {
	case r.inPlace:
		return v.fail(r.wrongInPlace(t))
	case r.distro.Owns(p.Name) && !r.takeOver:
		return v.leave("platform-owned")
	case r.update == Missing:
		return v.leave("present")
	case r.update == Owned && !ours:
		return v.leave("foreign")
	}

	v.result.Action, v.result.New, v.write = Replaced, p.Digest, true

	return v
}

func (r rules) wrongInPlace(t target) string {
	switch {
	case t.kind == symlink:
		return "it is a symlink, its manifest lists a file"
	case t.err != nil:
		return "it cannot be read: " + sentence(t.err)
	case !t.runnable():
		return fmt.Sprintf("it has mode %04o instead of %04o", t.stat.Mode&0o7777, mode)
	default:
		return "it does not match its manifest"
	}
}

func (v verdict) fail(reason string) verdict {
	v.result.Action, v.result.Reason, v.write = Failed, reason, false

	return v
}

func (v verdict) leave(reason string) verdict {
	v.result.Action, v.result.Reason = Left, reason

	return v
}

// Short returns a digest in the length people compare by eye, and any other text as it is.
func Short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	if len(hex) == len(digest) || len(hex) < 12 {
		return digest
	}

	return hex[:12]
}
