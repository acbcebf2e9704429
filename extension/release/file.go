package release

import (
	"fmt"
	"io"
	"os"
)

// ReadMarkersFile is ReadMarkers for a file.
func ReadMarkersFile(name string) (Pinned, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}

	// A FIFO would block for ever.
	if !info.Mode().IsRegular() {
		return Pinned{}, fmt.Errorf("reading markers: %s is not a regular file", name)
	}

	file, err := os.Open(name)
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, maxMarkerFile+1))
	if err != nil {
		return Pinned{}, fmt.Errorf("reading markers: %w", err)
	}

	return ReadMarkers(name, data)
}
