package watch

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// journal writes log lines of key=value pairs, as log/slog's text handler does; that package alone
// would cost the installer 100 kB.
type journal struct {
	mu  sync.Mutex
	out io.Writer
	now func() time.Time
	// problems are those that last, by what they are about: each is told once, not at every look.
	problems map[string]string
	remarked string
}

func newJournal(out io.Writer, now func() time.Time) *journal {
	return &journal{out: out, now: now, problems: map[string]string{}}
}

// problem tells of a problem that is new or another than before, and of one that is over: the empty
// text is none.
func (j *journal) problem(about, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	before := j.problems[about]

	switch {
	case text == before:
	case text == "":
		delete(j.problems, about)
		j.write("info", "over", "about", about, "problem", before)
	default:
		j.problems[about] = text
		j.write("warn", "problem", "about", about, "problem", text)
	}
}

// remark tells what is worth knowing and no problem, unless it was the last remark too.
func (j *journal) remark(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	if text != "" && text != j.remarked {
		j.remarked = text
		j.write("info", "note", "text", text)
	}
}

func (j *journal) info(message string, pairs ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	j.write("info", message, pairs...)
}

func (j *journal) warn(message string, pairs ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	j.write("warn", message, pairs...)
}

func (j *journal) write(level, message string, pairs ...string) {
	var line strings.Builder

	fmt.Fprintf(&line, "time=%s level=%s msg=%s", j.now().UTC().Format("2006-01-02T15:04:05.000Z"), level, quote(message))

	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}

		fmt.Fprintf(&line, " %s=%s", pairs[i], quote(pairs[i+1]))
	}

	line.WriteByte('\n')

	// Nobody is left to tell of a log that cannot be written, and the plugins matter more.
	_, _ = io.WriteString(j.out, line.String())
}

// quote quotes a value where it would not be one word.
func quote(s string) string {
	plain := !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '=' || r > '~'
	})
	if plain {
		return s
	}

	return strconv.Quote(s)
}
