package release

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// MoveMarker writes another release into a writer's marker in the file that p was read from, and returns
// p with the marker moved. Nothing but the release in that line changes. The file is replaced by rename
// and keeps its mode; when it is no longer what p was read from, nothing is written.
func (p Pinned) MoveMarker(writer, release string) (Pinned, error) {
	marker, ok := p.Marker(writer)

	switch {
	case p.BuiltIn:
		return Pinned{}, fmt.Errorf("moving the marker: %s is compiled in: name the file with --marker", p.File)
	case !ok:
		return Pinned{}, fmt.Errorf("moving the marker: %s has none for %s", p.File, writer)
	}

	// A link stays one.
	name, err := filepath.EvalSymlinks(p.File)
	if err != nil {
		return Pinned{}, fmt.Errorf("moving the marker: %w", err)
	}

	data, err := os.ReadFile(name)
	if err != nil {
		return Pinned{}, fmt.Errorf("moving the marker: %w", err)
	}

	again, err := ReadMarkers(p.File, data)
	if now, found := again.Marker(writer); err != nil || !found || now != marker {
		return Pinned{}, fmt.Errorf("moving the marker: %s has changed meanwhile: check again", p.File)
	}

	changed, err := p.moved(data, writer, release)
	if err != nil {
		return Pinned{}, fmt.Errorf("moving the marker: %w", err)
	}

	moved, err := ReadMarkers(p.File, changed)
	if err != nil {
		return Pinned{}, fmt.Errorf("moving the marker: %w", err)
	}

	if err := replaceFile(name, changed); err != nil {
		return Pinned{}, fmt.Errorf("moving the marker: %w", err)
	}

	return moved, nil
}

// moved returns the file's content with another release in the marker.
func (p Pinned) moved(data []byte, writer, release string) ([]byte, error) {
	marker, ok := p.Marker(writer)
	if !ok || marker.end <= marker.start || marker.end > len(data) {
		return nil, fmt.Errorf("%s: line %d: the release is not written out plainly", p.File, marker.Line)
	}

	// A release written without its v stays so.
	if data[marker.start] != 'v' {
		release = release[1:]
	}

	return bytes.Join([][]byte{data[:marker.start], []byte(release), data[marker.end:]}, nil), nil
}

// replaceFile writes a file beside its place and renames it.
func replaceFile(name string, data []byte) (err error) {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}

	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return err
	}

	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()

	_, err = file.Write(data)
	err = errors.Join(err, keepOwner(file, info), file.Chmod(info.Mode().Perm()), file.Sync(), file.Close())

	if err != nil {
		return err
	}

	return os.Rename(file.Name(), name)
}
