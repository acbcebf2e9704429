package buildertest

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// Mount mounts something for the time of a test, which must leave nothing open in it.
func Mount(t testing.TB, source, dir, kind string, flags uintptr, options string) {
	t.Helper()
	RequireRoot(t)

	if err := syscall.Mount(source, dir, kind, flags, options); err != nil {
		t.Fatalf("mounting %s: %v", dir, err)
	}

	t.Cleanup(func() {
		// A program that another test has just started holds this process's files until it executes.
		deadline := time.Now().Add(30 * time.Second)

		for {
			err := syscall.Unmount(dir, 0)
			if err == nil {
				return
			}

			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				t.Errorf("unmounting %s: %v", dir, err)

				return
			}

			time.Sleep(10 * time.Millisecond)
		}
	})
}
