package release

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// The grammar of distribution's reference package, without its limit on the port.
	repositoryPattern = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/|\[[0-9a-fA-F:]+\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagPattern        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestPattern     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	schematicPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// installer, installer-base, installer-secureboot, metal-installer, aws-installer-secureboot, imager, talos.
	talosImage = regexp.MustCompile(`^([a-z0-9]+-)*installer(-base)?(-secureboot)?$|^imager$|^talos$`)
)

// ParseReference reads an image reference and says which writer's image it is, as far as its name tells,
// and of which release, as far as its tag tells. Nothing is pulled.
func ParseReference(reference string) (Shipped, error) {
	shipped := Shipped{Source: reference, Kind: "image reference", Image: reference}

	for _, scheme := range []string{"docker://", "oci://"} {
		shipped.Image = strings.TrimPrefix(shipped.Image, scheme)
	}

	rest, digest, hasDigest := strings.Cut(shipped.Image, "@")
	repository, tag := rest, ""

	// The port of a registry also follows a colon.
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		repository, tag = rest[:i], rest[i+1:]
	}

	switch {
	case !repositoryPattern.MatchString(repository):
		return Shipped{}, fmt.Errorf("%q is not an image reference", shorten(reference))
	case hasDigest && !digestPattern.MatchString(digest):
		return Shipped{}, fmt.Errorf("%q: the digest is not sha256 and 64 hexadecimal digits", shorten(reference))
	case repository != rest && !tagPattern.MatchString(tag):
		return Shipped{}, fmt.Errorf("%q: the tag is not one", shorten(reference))
	}

	shipped.Writer = imageWriter(strings.Split(repository, "/"))

	switch {
	case IsVersion(tag):
		shipped.Release, _ = parseVersion(tag)
		shipped.Evidence = append(shipped.Evidence, Evidence{"release " + shipped.Release, "the tag of " + shipped.Image})
	case tag == "" && hasDigest:
		shipped.Why = "the image is named by its digest alone"
	case tag == "":
		shipped.Why = "the image has no tag"
	default:
		shipped.Why = fmt.Sprintf("the tag %q is not a release", tag)
	}

	return shipped, nil
}

// imageWriter tells whose image it is by the last elements of its repository.
func imageWriter(elements []string) string {
	last := len(elements) - 1

	// Image Factory: .../installer/SCHEMATIC.
	if last > 0 && schematicPattern.MatchString(elements[last]) {
		last--
	}

	switch {
	case slices.Contains([]string{"kube-ovn", "kube-ovn-base", "kube-ovn-debug"}, elements[last]):
		return KubeOVN
	case talosImage.MatchString(elements[last]):
		return Talos
	default:
		return ""
	}
}
