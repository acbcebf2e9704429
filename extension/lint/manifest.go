package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/blang/semver/v4"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"gopkg.in/yaml.v3"
)

// manifest is what Talos reads in manifest.yaml, and what it passes over.
type manifest struct {
	// err says why there is none, as Talos says it; nil when decoded is filled.
	err     error
	decoded extensions.Manifest
	// constraintErr says why the range of versions cannot be read; admits is nil then, and without a range.
	constraintErr error
	admits        func(semver.Version) bool
	// strictErr is what a strict reader objects to, such as an unknown key.
	strictErr error
}

var errNoManifest = errors.New("there is no manifest")

// loadManifest reads the manifest with Talos's own code, which wants a directory.
func loadManifest(t *tree, work string) manifest {
	e := t.files[manifestName]

	switch {
	case e == nil || !e.isFile():
		return manifest{err: errNoManifest}
	case e.data == nil:
		return manifest{err: fmt.Errorf("the file has more than %d bytes", maxText)}
	}

	extension, err := loadExtension(e.data, work)
	if err != nil {
		return manifest{err: err}
	}

	m := manifest{decoded: extension.Manifest, strictErr: checkStrict(e.data)}

	if m.decoded.Metadata.Compatibility.Talos.Version != "" {
		m.admits, m.constraintErr = readConstraint(extension)
	}

	return m
}

func loadExtension(data []byte, work string) (extension *extensions.Extension, err error) {
	dir, err := os.MkdirTemp(work, "manifest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	if err := os.Mkdir(filepath.Join(dir, rootfsName), 0o755); err != nil {
		return nil, err
	}

	if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o600); err != nil {
		return nil, err
	}

	defer recoverAs(&err)

	return extensions.Load(dir)
}

// readConstraint has Talos's own code parse the range and returns a function that asks it again.
func readConstraint(extension *extensions.Extension) (admits func(semver.Version) bool, err error) {
	defer recoverAs(&err)

	ask := func(v semver.Version) error {
		return extension.Validate(extensions.WithValidateConstraints(), extensions.WithTalosVersion(&v))
	}

	// An unreadable range fails for every version with a wrapped error; one that a version misses does not wrap.
	if err := ask(semver.Version{Major: 1}); err != nil && errors.Unwrap(err) != nil {
		return nil, errors.Unwrap(err)
	}

	return func(v semver.Version) bool { return ask(v) == nil }, nil
}

// recoverAs turns a panic of a parser that was fed an untrusted file into an error.
func recoverAs(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the parser gave up: %v", r)
	}
}

// checkStrict returns what Talos passes over in silence: unknown keys and further documents.
func checkStrict(data []byte) (err error) {
	defer recoverAs(&err)

	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)

	var strict extensions.Manifest
	if err := decoder.Decode(&strict); err != nil {
		return err
	}

	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document, and only the first is read")
	}

	return nil
}

// coreVersion drops what Talos drops before it compares: pre-release and build.
func coreVersion(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch}
}
