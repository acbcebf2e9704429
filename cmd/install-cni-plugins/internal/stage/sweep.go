package stage

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"golang.org/x/sys/unix"
)

// Temporary files carry a name of their own form, so that nothing else is ever taken for one. A
// running installer holds a shared lock on each of its temporaries from creation to rename; one that
// can be locked exclusively was left by a program that is no more.

const temporaryPrefix = ".cni-plugins-tmp-"

func isTemporary(name string) bool {
	id, ok := strings.CutPrefix(name, temporaryPrefix)

	return ok && len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}

func temporaryName() string {
	var b [8]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}

	return temporaryPrefix + hex.EncodeToString(b[:])
}

// litter lists the directory's temporaries, whosever they are.
func (d *directory) litter() ([]string, error) {
	return d.names(isTemporary)
}

// sweep removes the temporaries that no running installer holds. The caller holds the directory's
// lock.
func (d *directory) sweep(names []string) (removed int, err error) {
	for _, name := range names {
		gone, e := d.sweepOne(name)
		if gone {
			removed++
		} else if e != nil && err == nil {
			err = e
		}
	}

	return removed, err
}

func (d *directory) sweepOne(name string) (bool, error) {
	st, err := d.lstat(name)
	if err != nil {
		return false, nil // its owner renamed or removed it
	}

	switch kindOf(st.Mode) {
	case symlink:
		// A link cannot be locked. It is made and renamed in one breath under the directory's
		// lock, so one that is seen by the lock's holder was left.
		return true, d.unlink(name)
	case regular:
	default:
		return false, nil
	}

	f, _, err := d.open(name)
	if err != nil {
		return false, err
	}
	defer f.close()

	if unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false, nil
	}

	if err := d.unlink(name); err != nil {
		return false, err
	}

	return true, nil
}
