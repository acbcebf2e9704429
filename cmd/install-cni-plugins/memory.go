package main

import (
	"runtime"
	"runtime/debug"
)

// limitMemory keeps the program small: as an init container it should run within a limit of 16 MiB,
// which also counts the page cache of what it copies and the plugin that it tries out. Every
// processor that Go uses costs memory, and a big node has many.
func limitMemory() {
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(8 << 20)
}
