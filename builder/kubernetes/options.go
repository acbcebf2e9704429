package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cnibake/cnibake/profiles/distro"
)

// ErrNoManifest is the error for a distribution for whose nodes no manifest can do anything.
var ErrNoManifest = errors.New("no manifest can be made")

// Updates are the installer's update policies.
func Updates() []string {
	return []string{"always", "owned", "missing"}
}

// Staging says what is staged and how: what the DaemonSet and the patch for Multus have in common.
type Staging struct {
	// Distro is the nodes' distribution.
	Distro distro.Distro
	// Image is the reference of the image with installer and plugins.
	Image string
	// Preloaded says that the image is on every node already, so that it must not be pulled.
	Preloaded bool
	// Skip are plugins that are not staged.
	Skip []string
	// Update is one of Updates, or empty for the installer's default.
	Update string
	// TakeOver replaces the names that the distribution ships itself too.
	TakeOver bool
}

func (s Staging) check() error {
	if s.Distro.BinDir == "" {
		return errors.New("no distribution is given")
	}

	if s.Distro.NoManifest != "" {
		return fmt.Errorf("%w for %s: %s", ErrNoManifest, s.Distro.Name, s.Distro.NoManifest)
	}

	if s.Update != "" && !slices.Contains(Updates(), s.Update) {
		return fmt.Errorf("unknown update policy %q: known are %s", s.Update, strings.Join(Updates(), ", "))
	}

	return nil
}

// CheckImage parses an image's reference. The warning, where there is one, says what may go wrong with it.
func CheckImage(reference string, preloaded bool) (warning string, err error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%q is no image reference: %w", reference, err)
	}

	_, hasDigest := ref.(name.Digest)

	switch {
	case hasDigest && preloaded:
		return fmt.Sprintf("%s names a digest, and an image that was loaded on a node mostly has its tag only: see with crictl images that this reference is known there", reference), nil
	case !hasDigest && !preloaded:
		return fmt.Sprintf("%s names no digest: whoever can move the tag decides what runs as root on every node, and nodes may end up with different bytes; give REF@sha256:..., as cnibake push prints it", reference), nil
	default:
		return "", nil
	}
}

// checkNames holds what people name to Kubernetes' rules, which say it less clearly and later.
func checkNames(namespace string, nodeSelector map[string]string) error {
	if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, faults[0])
	}

	for _, key := range slices.Sorted(maps.Keys(nodeSelector)) {
		if faults := validation.IsQualifiedName(key); len(faults) > 0 {
			return fmt.Errorf("node selector: label %q: %s", key, faults[0])
		}

		if faults := validation.IsValidLabelValue(nodeSelector[key]); len(faults) > 0 {
			return fmt.Errorf("node selector: value %q of label %s: %s", nodeSelector[key], key, faults[0])
		}
	}

	return nil
}
