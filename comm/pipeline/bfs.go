package pipeline

import "fmt"

// LoopedBFS has several stages on each device, and takes all micro-batches through one
// before the next, forward and then backward (Lamy-Poirier 2022, arXiv 2211.05953). A
// device idles for (p−1)·(F+B+W)/v, where F, B and W are those of its v stages together,
// and holds all activations.
type LoopedBFS struct {
	Chunks int `doc:"stages of a device"`
}

var _ = Schedules.Add("bfs", "looped stages, breadth first: all micro-batches through one stage before the next", LoopedBFS{Chunks: 2})

// Validate checks the options.
func (s LoopedBFS) Validate() error { return checkChunks(s.Chunks) }

func checkChunks(n int) error {
	if n < 1 || n > 1000 {
		return fmt.Errorf(`option "chunks": want 1 to 1000, not %d`, n)
	}
	return nil
}

// Plan implements Schedule.
func (s LoopedBFS) Plan(devices, micros int) (*Plan, error) {
	return plan(devices, micros, looped(max(devices, 0), s.Chunks), func(d int) (l line) {
		for c := range s.Chunks {
			for i := range micros {
				l.add(c*devices+d, Forward, i)
			}
		}
		for c := s.Chunks - 1; c >= 0; c-- {
			for i := micros - 1; i >= 0; i-- {
				l.add(c*devices+d, Backward, i)
			}
		}
		return l
	})
}
