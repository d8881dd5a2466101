package experiments

import (
	"runtime"

	"github.com/gradlab/gradlab/internal/f32"
)

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
