package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder"
)

// checkOne returns an error for the output of a whole build, given to a command that is about one
// artifact: what it would find there is not what is wrong.
func checkOne(artifact string) error {
	if !builder.IsDist(artifact) {
		return nil
	}

	dist, err := builder.OpenDist(artifact)
	if err != nil {
		return err
	}

	var names []string
	for _, name := range append(dist.Layouts(), dist.Archives()...) {
		names = append(names, filepath.Join(artifact, name))
	}

	return fmt.Errorf("%s is the output of a whole build: give one of %s", artifact, strings.Join(names, ", "))
}
