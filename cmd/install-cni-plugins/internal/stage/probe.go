package stage

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// probe executes one plugin, the smallest of those that are right now: whether files can be run
// from the directory is the same for all of them. It runs when nothing is being written any more,
// because a child between fork and exec holds every descriptor of this program for an instant, and
// a plugin that is open for writing anywhere cannot be executed.
func (r *run) probe(ctx context.Context, verdicts []verdict) {
	var candidate *verdict

	for i := range verdicts {
		v := &verdicts[i]

		switch v.result.Action {
		case Installed, Replaced, Unchanged:
			if candidate == nil || v.plugin.Size < candidate.plugin.Size {
				candidate = v
			}
		}
	}

	if candidate == nil || ctx.Err() != nil {
		return
	}

	path := recordKey(r.dst.join(candidate.plugin.Name))

	err := r.sys.call("exec", path, func() error {
		_, err := payload.Probe(ctx, path)

		return err
	})
	if err != nil && ctx.Err() == nil {
		if _, e := r.dst.lstat(candidate.plugin.Name); errors.Is(e, unix.ENOENT) {
			*candidate = candidate.fail("it was written, and somebody has removed it again")

			return
		}

		*candidate = candidate.fail("it is in place but does not run: " + r.unrunnable(path, err))
	}
}

// unrunnable says why a staged plugin cannot be executed.
func (r *run) unrunnable(path string, err error) string {
	var st unix.Statfs_t

	noexec := unix.Fstatfs(r.dst.fd, &st) == nil && st.Flags&unix.ST_NOEXEC != 0

	switch {
	case errors.Is(err, unix.EACCES) && noexec:
		return fmt.Sprintf("%s is mounted noexec (EACCES); remount it with exec, or stage into %s", r.dst.path, r.rightPlace())
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Sprintf("%s is no program for this machine (ENOEXEC); use the image for %s", path, r.arch)
	case errors.Is(err, unix.ENOENT):
		return fmt.Sprintf("%s asks for a loader that this node has not (ENOENT); use static plugins", path)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Sprintf("%s; a security module denies it: look for a denial in the node's audit log", sentence(err))
	default:
		return sentence(err)
	}
}

// rightPlace names the bin directories that are known.
func (r *run) rightPlace() string {
	if r.Distro.Name != "" && r.Distro.BinDir != r.Dest {
		return fmt.Sprintf("%s, the bin directory of %s", r.Distro.BinDir, r.Distro.Name)
	}

	return "the bin directory that the container runtime's configuration names"
}
