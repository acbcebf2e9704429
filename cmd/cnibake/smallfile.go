package main

import (
	"fmt"
	"io"
	"os"
)

// maxKey bounds keys, certificates and trusted roots; maxPredicate what somebody states about an artifact.
const (
	maxKey       = 1 << 20
	maxPredicate = 16 << 20
)

// readSmall reads a file of at most so many bytes, which may be a pipe.
func readSmall(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}

	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", name, most)
	}

	return data, nil
}
