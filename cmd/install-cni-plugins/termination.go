package main

import (
	"errors"
	"io/fs"
	"os"
)

// terminationLimit is how much of the file Kubernetes reads; it would keep the end, which is why
// the text is cut here, behind the summary that it begins with.
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

	_, err = file.WriteString(text[:min(len(text), terminationLimit)])
	if e := file.Close(); err == nil {
		err = e
	}

	return err
}
