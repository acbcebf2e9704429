// The archiver of Talos 1.12 extracts the tar on standard input into a directory, as the imager of
// that line does. It sets SELinux labels on the file system, which takes root.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/siderolabs/talos/pkg/archiver"
)

func main() {
	if err := archiver.Untar(context.Background(), os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
