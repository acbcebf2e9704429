package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// terminationLimit is how many bytes of the file Kubernetes reads.
const terminationLimit = 4096

// writeTerminationLog writes to the container's termination log where there is one. It is a file
// that the kubelet has mounted; nothing else at that path is written to.
func writeTerminationLog(path, text string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	} else if err != nil {
		return err
	}

	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}

	_, err = file.WriteString(ending(text))
	if e := file.Close(); err == nil {
		err = e
	}

	return err
}

// ending returns the last lines of a text that fit, since the summary comes last.
func ending(text string) string {
	if len(text) <= terminationLimit {
		return text
	}

	text = text[len(text)-terminationLimit:]
	if _, lines, ok := strings.Cut(text, "\n"); ok && lines != "" {
		return lines
	}

	return text
}
