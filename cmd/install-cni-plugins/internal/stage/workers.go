package stage

import (
	"runtime"
	"sync"
)

// defaultWorkers is how many plugins are read or written at once: two keep a disk busy while
// digests are computed, and each costs memory.
func defaultWorkers() int {
	return min(2, runtime.NumCPU())
}

// each runs f for the indexes below n, on a few workers.
func each(workers, n int, f func(i int)) {
	indexes := make(chan int)

	var running sync.WaitGroup

	for range min(workers, n) {
		running.Go(func() {
			for i := range indexes {
				f(i)
			}
		})
	}

	for i := range n {
		indexes <- i
	}

	close(indexes)
	running.Wait()
}
