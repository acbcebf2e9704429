package watch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/stage"
)

// A file is read when it has been left alone for a while, its patience: a half-written one would
// only be taken for an altered one, and two writes within one tick of the file system's clock look
// like one. A file that changes again and again gets more of it, so that whoever writes all the time
// does not make us read all the time.
const (
	minPatience = 2 * time.Second
	maxPatience = 5 * time.Minute
	// restless is how many times its patience a file has to stay the same to be calm again.
	restless = 10
)

// fingerprint is what shows cheaply that a file may have changed: as long as it is the same, nobody
// has written the file or put another in its place. The zero value is a name that is absent.
type fingerprint struct {
	dev, ino     uint64
	mode         uint32
	size         int64
	mtime, ctime unix.Timespec
}

// plugin is what is known of one wanted name.
type plugin struct {
	name string
	// seen is what had the name at the last look, and since when that is so.
	seen  fingerprint
	since time.Time
	// usable says that a runtime could execute it.
	usable bool
	// state is the verdict on verified; it holds as long as that is what is seen.
	state            stage.State
	reason           string
	digest, required string
	verified         fingerprint
	// acceptable tells apart what the file was held to.
	acceptable string
	read       time.Time
	patience   time.Duration
	// told is the state that the log last told of.
	told stage.State
	// missing and altered count what was done about it.
	missing, altered attempts
}

// accept says what the file is held to; where that is new, old verdicts are void.
func (p *plugin) accept(digests string) {
	if p.acceptable != digests {
		p.acceptable = digests
		p.forget()
	}
}

// forget voids the verdict.
func (p *plugin) forget() {
	p.verified = fingerprint{}
}

// look finds out what has the name, and returns when that should be read; zero is never.
func (p *plugin) look(fd int, now time.Time) time.Time {
	seen, err := lookAt(fd, p.name)

	switch {
	case err != nil:
		p.state, p.reason, p.usable = stage.Unknown, err.Error(), false
		p.seen = fingerprint{}

		return time.Time{}
	case seen == fingerprint{}:
		p.seen, p.since, p.state, p.reason, p.usable = seen, now, stage.NotThere, "", false
		p.forget()

		return time.Time{}
	case p.since.IsZero():
		// What has long been there when the watch begins is read at once. A clock that was set back
		// makes its change time lie in the future, where it says nothing.
		p.since = now
		if changed := time.Unix(seen.ctime.Unix()); changed.Before(now) {
			p.since = changed
		}
	case seen != p.seen:
		p.since = now
	}

	p.seen = seen
	p.usable = usable(fd, p.name)

	return p.due(now)
}

// due returns when the file should be read; zero where the verdict holds.
func (p *plugin) due(now time.Time) time.Time {
	if p.verified == p.seen {
		return time.Time{}
	}

	patience := max(p.patience, minPatience)

	due := p.since.Add(patience)
	if again := p.read.Add(patience); again.After(due) {
		due = again
	}

	if due.After(now) && p.state != stage.Unknown {
		p.state, p.reason = stage.Unknown, "it has just changed"
	}

	return due
}

// judge takes the verdict over from a verification, if what was verified is what is there.
func (p *plugin) judge(fd int, c stage.Check, now time.Time) {
	if patience := max(p.patience, minPatience); now.Sub(p.read) < restless*patience {
		p.patience = min(2*patience, maxPatience)
	} else {
		p.patience = minPatience
	}

	p.read = now
	p.state, p.reason, p.digest, p.required = c.State, c.Reason, c.Digest, c.Want

	seen, err := lookAt(fd, p.name)
	if err != nil || seen != p.seen {
		p.seen, p.since = seen, now
		p.state, p.reason = stage.Unknown, "it has just changed"

		return
	}

	if c.State != stage.Unknown {
		p.verified = seen
	}
}

// wrong reports whether the file is there and not what it should be.
func (p *plugin) wrong() bool {
	return p.state == stage.Altered || p.state == stage.NotExecutable
}

func lookAt(fd int, name string) (fingerprint, error) {
	var st unix.Stat_t

	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW).(unix.Errno)
	}

	if err == unix.ENOENT {
		return fingerprint{}, nil
	} else if err != 0 {
		return fingerprint{}, fmt.Errorf("looking at %s: %s (%w)", name, unix.ErrnoName(err), err)
	}

	return fingerprint{
		dev: uint64(st.Dev), ino: st.Ino, mode: st.Mode, size: st.Size, mtime: st.Mtim, ctime: st.Ctim,
	}, nil
}

// usable reports whether a name leads to a program. A link to an absolute path means a file of the
// node, which a container need not see: it has the benefit of the doubt.
func usable(fd int, name string) bool {
	var st unix.Stat_t

	if err := unix.Fstatat(fd, name, &st, 0); errors.Is(err, unix.ENOENT) {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, name, buf)

		return err == nil && strings.HasPrefix(string(buf[:n]), "/")
	} else if err != nil {
		return false
	}

	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0
}
