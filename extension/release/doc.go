// Package release knows which CNI plugin versions each release of Talos and of other writers of a node's
// CNI bin directory carries, reads markers and statements of what a node image ships, and compares both.
// It reads no network and, beyond files with markers, no file: callers hand it bytes.
package release
