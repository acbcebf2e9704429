// Package imager runs the Talos imager's own code, the version that go.mod requires, over extensions.
package imager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/siderolabs/talos/pkg/imager/profile"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
)

// Version is the release whose imager this is.
const Version = "v1.13.6"

// Unpacked is an extension as the imager holds it before it makes an image of it.
type Unpacked struct {
	// Dir holds manifest.yaml and rootfs/.
	Dir string
	// Labels are the SELinux labels by path relative to Dir. The imager keeps them beside the files.
	Labels map[string]string
	// Extension is what the imager read.
	Extension *extensions.Extension
}

// Unpack extracts and loads an extension below parent, which is the tree that Rebuild takes.
func Unpack(ctx context.Context, asset profile.ContainerAsset, arch, parent string) (*Unpacked, error) {
	// The imager numbers its extensions; the number becomes the name of the squashfs.
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}

	dir := filepath.Join(parent, fmt.Sprint(len(entries)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}

	labels := map[string]string{}

	if err := asset.Extract(ctx, dir, arch, discard, labels); err != nil {
		return nil, fmt.Errorf("extracting: %w", err)
	}

	extension, err := extensions.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}

	unpacked := &Unpacked{Dir: dir, Labels: make(map[string]string, len(labels)), Extension: extension}

	for path, label := range labels {
		unpacked.Labels[strings.TrimPrefix(path, dir+"/")] = label
	}

	return unpacked, nil
}

// Validate checks the version constraint against a Talos release, as the imager does. With contents
// it also runs the path check, which only the imagers up to 1.8 and the catalogue's validator do.
func (u *Unpacked) Validate(talos string, contents bool) error {
	version, err := semver.ParseTolerant(talos)
	if err != nil {
		return err
	}

	options := []extensions.ValidationOption{extensions.WithValidateConstraints(), extensions.WithTalosVersion(&version)}
	if contents {
		options = append(options, extensions.WithValidateContents())
	}

	return u.Extension.Validate(options...)
}

func discard(string, ...any) {}
