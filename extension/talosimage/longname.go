package talosimage

import (
	"errors"
	"syscall"
)

// isNameTooLong tells a text that cannot be a file name, such as a long image reference, from a real fault.
func isNameTooLong(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG)
}
