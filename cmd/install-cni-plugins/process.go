package main

import (
	"os"
	"os/signal"
	"syscall"
)

// prepareProcess makes the program independent of how it was started.
func prepareProcess() {
	// Every file gets its mode by name. A umask that takes rights from their owner as well would keep
	// this program, without capabilities, from opening what it has just created.
	syscall.Umask(0o022)

	// A reader of the results that has gone must not kill the program before it has told the
	// termination log what failed. Not signal.Ignore: the plugin that is tried out would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	// Go's runtime takes two descriptors when it opens the first file, and crashes where there are
	// none left. Taken now, running out of them later is an error like any other.
	if file, err := os.Open("/"); err == nil {
		file.Close()
	}
}
