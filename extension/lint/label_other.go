//go:build !linux

package lint

// labelRecord returns nothing: only Linux has SELinux labels.
func labelRecord(string) map[string]string { return nil }
