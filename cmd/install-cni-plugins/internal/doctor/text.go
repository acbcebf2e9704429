package doctor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// say makes a sentence. The strings in it may come from outside: each is made fit for a terminal and
// for one line.
func say(format string, args ...any) string {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = safe(s)
		}
	}

	return fmt.Sprintf(format, args...)
}

// safe makes text from outside fit for a terminal and for one line; what is fit stays as it is.
func safe(s string) string {
	const limit = 500

	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}

	for _, r := range s {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return strconv.Quote(s)
		}
	}

	return s
}

// command makes a line for a shell.
func command(words ...string) string {
	for i, w := range words {
		if w == "" {
			words[i] = "''"
		}

		for _, r := range w {
			if (r|0x20 < 'a' || r|0x20 > 'z') && !strings.ContainsRune("0123456789/._-+=:@,", r) {
				words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"

				break
			}
		}
	}

	return strings.Join(words, " ")
}

// reason is an error without the path, which the reader knows better.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno) + " (" + errno.Error() + ")"
	}

	return err.Error()
}

// kind says what a file is that is not a regular one.
func (f *file) kind() string {
	switch f.mode() {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFLNK:
		return "a symlink that leads nowhere"
	default:
		return "a device"
	}
}
