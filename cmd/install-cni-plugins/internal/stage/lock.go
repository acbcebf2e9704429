package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// LockWait is how long an installer waits for another one that works on the same directory. A first
// staging takes a second or two; whoever holds the lock for longer hangs, on a dead disk for example.
const LockWait = 30 * time.Second

// lock takes the directory's own lock: flock on the open directory leaves nothing behind, and the
// kernel releases it when the program dies. It returns a note instead where the lock cannot be had:
// the renames keep staging safe without it.
func (d *directory) lock(ctx context.Context, wait time.Duration) (note string, err error) {
	deadline := time.Now().Add(wait)

	for {
		err := d.sys.call("flock", d.path, func() error { return unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB) })

		switch {
		case err == nil:
			return "", nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Sprintf("%s cannot be locked (%s); going on without the lock", d.path, errnoName(err)), nil
		case time.Now().After(deadline):
			return fmt.Sprintf("%s is still locked by another installer after %s; going on without the lock", d.path, wait), nil
		}

		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *directory) unlock() {
	unix.Flock(d.fd, unix.LOCK_UN)
}
