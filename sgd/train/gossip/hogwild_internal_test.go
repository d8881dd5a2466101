package gossip

import (
	"sync"
	"testing"
)

// No update is lost, however many write at once.
func TestRacyLosesNothing(t *testing.T) {
	const n, workers, times = 300, 8, 500
	r := &racy{bits: make([]uint32, n)}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			u, seen := make([]float32, n), make([]float32, n)
			for i := range u {
				u[i] = float32((i + w) % 2) // half of the values each
			}
			for range times {
				r.sub(u)
				r.read(seen)
			}
		})
	}
	wg.Wait()
	got := make([]float32, n)
	r.read(got)
	for i, v := range got {
		if v != -workers/2*times {
			t.Fatalf("value %d is %v, want %d", i, v, -workers/2*times)
		}
	}
	if r.made.Load() != workers*times {
		t.Errorf("%d updates are counted", r.made.Load())
	}
}
