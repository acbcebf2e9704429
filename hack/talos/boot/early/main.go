// Early is /init of the test's initramfs. Talos's kernel has built in what Debian's has as modules,
// so they are loaded before Talos's own init takes over.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/module"
)

const talosInit = "/talos-init"

func main() {
	if err := module.LoadAll("/early-modules"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}

	err := unix.Exec(talosInit, []string{"/init"}, os.Environ())
	fmt.Fprintf(os.Stderr, "executing %s: %v\n", talosInit, err)
}
