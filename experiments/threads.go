package experiments

import (
	"runtime"

	"github.com/gradlab/gradlab/internal/f32"
)

// threadsEach is the cores of a process where each of this machine's workers has
// one: what the key says, or else its share. Servers get as many: they work
// while workers wait.
func threadsEach(threads, workers int) int {
	if threads > 0 {
		return threads
	}
	return max(1, runtime.NumCPU()/workers)
}

// limitThreads sets the cores this process uses; restore undoes it.
func limitThreads(n int) (restore func()) {
	if n <= 0 {
		return func() {}
	}
	before := runtime.GOMAXPROCS(n)
	f32.SetThreads(n)
	return func() {
		runtime.GOMAXPROCS(before)
		f32.SetThreads(0)
	}
}
