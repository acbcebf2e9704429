package watch

import (
	"testing"
	"time"
)

func TestPolicy(t *testing.T) {
	t.Parallel()

	p := policy{free: 2, first: time.Minute, max: 10 * time.Minute, forget: time.Hour}
	now := time.Unix(1, 0)

	var a attempts

	for i, c := range []struct {
		failed      bool
		pass, pause time.Duration
	}{
		{false, 0, 0},
		{false, 0, time.Minute},
		{false, time.Minute, 2 * time.Minute},
		{true, 2 * time.Minute, 2 * time.Minute}, // a failure in between is not what somebody undid
		{true, 2 * time.Minute, 2 * time.Minute},
		{true, 2 * time.Minute, 4 * time.Minute},
		{true, 4 * time.Minute, 8 * time.Minute},
		{true, 8 * time.Minute, 10 * time.Minute},
		{false, 10 * time.Minute, 4 * time.Minute}, // when it succeeds, only that counts which was undone
		{false, 59 * time.Minute, 8 * time.Minute},
		{false, time.Hour, 0},
		{true, time.Hour, time.Minute},
		{true, 0, 2 * time.Minute},
		{false, 0, 0},
	} {
		now = now.Add(c.pass)
		p.record(&a, now, c.failed)

		if got := max(0, p.due(a).Sub(now)); got != c.pause {
			t.Errorf("after attempt %d it pauses for %s, want %s", i, got, c.pause)
		}
	}

	for range 100 {
		p.record(&a, now, true)
	}

	if got := p.due(a).Sub(now); got != p.max {
		t.Errorf("in the end it pauses for %s", got)
	}
}
