package main

import (
	"fmt"
	"io"
)

// results is where results go. It remembers that they could not be written, so that nobody takes no
// results for good ones.
type results struct {
	io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("writing the results: %w", err)
	}

	return n, err
}
