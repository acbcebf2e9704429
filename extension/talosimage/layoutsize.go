package talosimage

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxManifest bounds an index, a manifest and a configuration of an untrusted layout, which the library
// reads into memory whole. Real ones have some kilobytes; a megabyte of tiny descriptors takes a hundred as values.
const maxManifest = 512 << 10

// checkLayout reports the first manifest of a layout that is too large to be one.
func checkLayout(dir string) error {
	left := maxEntries

	return checkManifest(dir, filepath.Join(dir, "index.json"), 0, &left)
}

func checkManifest(dir, name string, depth int, left *int) error {
	const deepest = 4
	if depth > deepest {
		return errors.New("indexes are nested too deeply")
	}

	if *left--; *left < 0 {
		return errors.New("too many manifests")
	}

	data, err := readSmall(name)
	if err != nil {
		return err
	}

	// What an index and a manifest refer to, other than layers.
	var manifest struct {
		Manifests []v1.Descriptor `json:"manifests"`
		Config    *v1.Descriptor  `json:"config"`
	}

	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}

	blob := func(d v1.Descriptor) string { return filepath.Join(dir, "blobs", d.Digest.Algorithm, d.Digest.Hex) }

	if manifest.Config != nil {
		if _, err := readSmall(blob(*manifest.Config)); err != nil {
			return err
		}
	}

	for _, d := range manifest.Manifests {
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() {
			continue
		}

		if err := checkManifest(dir, blob(d), depth+1, left); err != nil {
			return err
		}
	}

	return nil
}

// readSmall reads a regular file of at most maxManifest bytes.
func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}

	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return nil, fmt.Errorf("%s: %d bytes are more than a manifest can have (limit %d)", name, info.Size(), maxManifest)
	}

	return os.ReadFile(name)
}
