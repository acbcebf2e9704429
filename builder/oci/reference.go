package oci

import "strings"

// LooksRemote reports whether an argument can be a registry reference: the part before the first slash has
// to be a host, so that a mistyped file name does not become a question to a public registry.
func LooksRemote(argument string) bool {
	host, rest, ok := strings.Cut(argument, "/")

	return ok && rest != "" && host != "." && host != ".." && (strings.ContainsAny(host, ".:") || host == "localhost")
}
