// Guest is /sbin/init of the machine that Talos's own init boots. It mounts what machined mounts,
// checks the extension from inside, writes results to the second serial port and powers off.
//
// What it sees is Talos's layer stacking and its overlay on a Debian kernel: layout, labels and
// behaviour are proven here, the drivers of a Talos kernel are not.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The first thread stays with the main goroutine: a goroutine that enters another network namespace
// must not leave it there, because the programs that the checks start inherit it.
func init() { runtime.LockOSThread() }

func main() {
	// The same program stands in for Talos's own plugins and for a stale copy.
	if name := filepath.Base(os.Args[0]); name != "init" {
		fmt.Fprintf(os.Stderr, "CNI %s plugin unknown\n", name)

		return
	}

	machine()
}
