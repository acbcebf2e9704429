package sums

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxFile bounds files that are read as a whole, in bytes; ours have some 50 kB.
const MaxFile = 16 << 20

// ReadFile reads a regular file of bounded size: the sums, or one that says what they are of. Opening anything
// else, such as a FIFO, does not block.
func ReadFile(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	if !info.Mode().IsRegular() || info.Size() > MaxFile {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", name, MaxFile)
	}

	return io.ReadAll(io.LimitReader(file, MaxFile))
}
