package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fadviseDontNeed(file *os.File) error {
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// residentBytes is how much of a file is in the page cache.
func residentBytes(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}

	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(data)

	page := os.Getpagesize()
	resident := make([]byte, (len(data)+page-1)/page)

	// The package has no wrapper for it.
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&resident[0])))
	if errno != 0 {
		return 0, errno
	}

	var total int64

	for _, flags := range resident {
		if flags&1 == 1 {
			total += int64(page)
		}
	}

	return total, nil
}
