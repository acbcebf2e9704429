package release

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

var versionPattern = regexp.MustCompile(`^v?(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9A-Za-z.-]{1,64})?$`)

// IsVersion reports whether a text is a whole version such as v1.13.9; the v may be missing.
func IsVersion(text string) bool {
	return versionPattern.MatchString(text) && semver.IsValid("v"+strings.TrimPrefix(text, "v"))
}

// parseVersion returns a version with its v.
func parseVersion(text string) (string, error) {
	if !IsVersion(text) {
		return "", fmt.Errorf("%q is not a version like v1.13.6", shorten(text))
	}

	return "v" + strings.TrimPrefix(text, "v"), nil
}

// shorten keeps what a hostile input says from filling the screen.
func shorten(text string) string {
	const limit = 80
	if len(text) > limit {
		return text[:limit] + "..."
	}

	return text
}
