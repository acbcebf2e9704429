package corpus

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/siderolabs/talos/pkg/imager/profile"
	"github.com/siderolabs/talos/pkg/machinery/extensions"

	"github.com/cnibake/cnibake/hack/talos/imager"
)

// Releases whose code the corpus is run through. Of the older and the newer line the part that
// extracts archives is to be had as a module; reading what it extracted is 1.13's code for all.
const (
	older  = "v1.12.6"
	newer  = "v1.14.1"
	middle = imager.Version
)

// extractor unpacks a tar into an empty directory.
type extractor func(ctx context.Context, tar, dir string) error

// program is an extractor in a module of its own: its release cannot be linked with this one.
func program(path string) extractor {
	return func(ctx context.Context, tar, dir string) error {
		in, err := os.Open(tar)
		if err != nil {
			return err
		}
		defer in.Close()

		cmd := exec.CommandContext(ctx, path, dir)
		cmd.Stdin = in

		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("extracting: %s", bytes.TrimSpace(out))
		}

		return nil
	}
}

// load extracts an archive with another release's code; the result is what the imager would go on with.
func load(ctx context.Context, extract extractor, version, tar, parent string) (string, error) {
	dir := filepath.Join(parent, "0")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}

	if err := extract(ctx, tar, dir); err != nil {
		return "", err
	}

	extension, err := extensions.Load(dir)
	if err != nil {
		return "", fmt.Errorf("loading: %w", err)
	}

	return dir, (&imager.Unpacked{Dir: dir, Extension: extension}).Validate(version, false)
}

// unpack is the whole way of the imager that go.mod requires.
func unpack(ctx context.Context, asset profile.ContainerAsset, arch, parent string) (string, error) {
	unpacked, err := imager.Unpack(ctx, asset, arch, parent)
	if err != nil {
		return "", err
	}

	return unpacked.Dir, unpacked.Validate(middle, false)
}
