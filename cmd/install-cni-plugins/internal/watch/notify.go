package watch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
)

// After nameEvents a name may be another file or none. contentEvents are what besides changes a file: of
// writing only the end counts, which comes some time.
const (
	nameEvents    = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	contentEvents = unix.IN_CLOSE_WRITE | unix.IN_ATTRIB
)

// breath is how long is waited between two readings of the queue, so that a storm of events is a few
// readings a second. As long as they are about something else, it grows: a directory on the way may
// be a busy one.
const (
	breath     = 250 * time.Millisecond
	longBreath = 2 * time.Second
)

// notifier says when something may have changed in a directory, or on the way to it: each directory
// of its path is watched for the next one's name.
type notifier struct {
	dest string
	// events gets a value when something may have changed.
	events chan struct{}
	// deleted and moved say that a mount on the way shows a directory which the node no longer has
	// at that place; empty where none does.
	deleted, moved string
	// linked are the directories on the way that were not deleted when they were first seen: some
	// file systems count no links, and theirs are not deleted for that.
	linked map[step]bool
	// strayed are the mounts that followed their directory elsewhere. Nothing but an event tells of
	// that; a directory that is no mount is found under its new name.
	strayed map[step]bool

	failure   error // for tests: what keeps inotify from working
	queue     *queue
	overflows atomic.Int64
}

// queue is one inotify instance. It is made anew when the directories on the way are others: old
// watch descriptors then need no bookkeeping.
type queue struct {
	file *os.File
	way  []step
	// broken says that a watch has gone, or the queue cannot be read.
	broken atomic.Bool

	mu sync.Mutex
	// steps are those that a watch descriptor is for: two paths may be one directory.
	steps map[int32][]int
	moved map[int]bool
}

const startAnew = "start this container anew to see the one that is there now"

func newNotifier(dest string, failure error) *notifier {
	return &notifier{dest: dest, events: make(chan struct{}, 1), failure: failure, strayed: map[step]bool{}}
}

func (n *notifier) close() {
	if n.queue != nil {
		n.queue.file.Close()
		n.queue = nil
	}
}

func (n *notifier) active() bool {
	return n.queue != nil
}

// renew makes the watches fit the directories that are there now. An error says why changes will
// not be noticed.
func (n *notifier) renew() error {
	way := n.walk()

	if q := n.queue; q != nil {
		for _, s := range q.takeMoved() {
			n.strayed[s] = isMount(s.path)
		}
	}

	n.moved = ""

	for _, s := range way {
		if n.strayed[s] {
			n.moved = s.path + " shows a directory that was moved away on the node; " + startAnew
		}
	}

	if q := n.queue; q != nil {
		if !q.broken.Load() && slices.Equal(q.way, way) {
			return nil
		}

		n.close()
	}

	q, err := n.open(way)
	if err != nil {
		return err
	}

	n.queue = q

	go n.read(q)

	return nil
}

func (n *notifier) open(way []step) (*queue, error) {
	if n.failure != nil {
		return nil, n.failure
	}

	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("setting up inotify: %w%s", err, inotifyRemedy(err))
	}

	q := &queue{file: os.NewFile(uintptr(fd), "inotify"), way: way, steps: map[int32][]int{}, moved: map[int]bool{}}

	for i, s := range way {
		mask := uint32(nameEvents | unix.IN_ONLYDIR | unix.IN_MASK_ADD)
		if s.next == "" {
			mask |= contentEvents
		}

		wd, err := unix.InotifyAddWatch(fd, s.path, mask)

		switch {
		case err == nil:
			q.steps[int32(wd)] = append(q.steps[int32(wd)], i)
		case s.next != "" && !errors.Is(err, unix.ENOSPC):
			// What happens on the way is rare; the poll will find it.
		default:
			q.file.Close()

			return nil, fmt.Errorf("watching %s: %w%s", s.path, err, inotifyRemedy(err))
		}
	}

	return q, nil
}

func inotifyRemedy(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return " (raise fs.inotify.max_user_instances)"
	case errors.Is(err, unix.ENOSPC):
		return " (raise fs.inotify.max_user_watches)"
	default:
		return ""
	}
}

// read reads events until the queue is closed.
func (n *notifier) read(q *queue) {
	raw, err := q.file.SyscallConn()
	if err != nil {
		q.broken.Store(true)

		return
	}

	buf := make([]byte, 16<<10)

	for rest := breath; ; time.Sleep(rest) {
		relevant := false

		// All of a full queue at once: the rest would only be old news next time.
		err := raw.Read(func(fd uintptr) bool {
			for i := range 64 {
				k, err := unix.Read(int(fd), buf)

				switch {
				case err == unix.EINTR:
				case err == unix.EAGAIN:
					return i > 0
				case err != nil || k <= 0:
					q.broken.Store(true)

					return true
				default:
					relevant = n.digest(q, buf[:k]) || relevant
				}
			}

			return true
		})

		if err != nil {
			q.broken.Store(true) // unless it is closed, and nobody asks any more

			return
		}

		if !relevant && !q.broken.Load() {
			rest = min(2*rest, longBreath)

			continue
		}

		rest = breath

		select {
		case n.events <- struct{}{}:
		default:
		}
	}
}

// digest reports whether any of the events matters.
func (n *notifier) digest(q *queue, buf []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()

	relevant := false

	for e := range events(buf) {
		switch {
		case e.mask&unix.IN_Q_OVERFLOW != 0:
			n.overflows.Add(1)

			relevant = true
		case e.mask&(unix.IN_IGNORED|unix.IN_UNMOUNT|unix.IN_DELETE_SELF) != 0:
			q.broken.Store(true)

			relevant = true
		case e.mask&unix.IN_MOVE_SELF != 0:
			for _, i := range q.steps[e.wd] {
				q.moved[i] = true
			}

			relevant = true
		default:
			for _, i := range q.steps[e.wd] {
				next := q.way[i].next
				relevant = relevant || next != "" && e.name == next ||
					next == "" && (payload.ValidName(e.name) || e.name == payload.ManifestName || e.name == "")
			}
		}
	}

	return relevant
}

// takeMoved returns the directories that were moved since it was last called.
func (q *queue) takeMoved() (way []step) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for i := range q.moved {
		way = append(way, q.way[i])
	}

	clear(q.moved)

	return way
}
