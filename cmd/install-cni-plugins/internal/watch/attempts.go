package watch

import "time"

// attempts is how often something was done about a name, lately.
type attempts struct {
	// done counts what was undone since; failed counts those in a row that did not even succeed.
	done, failed int
	last         time.Time
}

// policy says how often something may be done: a few times at once, then after pauses that double.
// Whoever undoes it again and again has a reason, or cannot be helped. After a failure, which nobody
// has to undo, the pauses begin at once.
type policy struct {
	free       int
	first, max time.Duration
	// forget is after how long without an attempt the count begins anew.
	forget time.Duration
}

var (
	// Writing a missing file harms nobody; only a loop that deletes must not become a loop that writes.
	missingPolicy = policy{free: 10, first: 10 * time.Second, max: 5 * time.Minute, forget: time.Hour}
	// The writer of an altered file may be an upgrade, and the right one of the two.
	alteredPolicy = policy{free: 3, first: time.Minute, max: 4 * time.Hour, forget: 24 * time.Hour}
)

// due returns when the next attempt may be made.
func (p policy) due(a attempts) time.Time {
	pauses := max(a.done-p.free+1, a.failed)
	if pauses <= 0 {
		return time.Time{}
	}

	delay := p.max
	if pauses <= 16 {
		delay = min(p.first<<(pauses-1), p.max)
	}

	return a.last.Add(delay)
}

// record counts an attempt.
func (p policy) record(a *attempts, now time.Time, failed bool) {
	if now.Sub(a.last) >= p.forget {
		*a = attempts{}
	}

	a.last = now

	if failed {
		a.failed++
	} else {
		a.done++
		a.failed = 0
	}
}
