package train

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/sgd/train/timing"
)

// The workers of a node share what it reads, also of a last node that has fewer.
func TestInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node, workers, worker int
		want                  time.Duration
	}{
		{0, 6, 5, 30 * time.Millisecond}, {1, 6, 5, 30 * time.Millisecond},
		{4, 6, 0, 120 * time.Millisecond}, {4, 6, 3, 120 * time.Millisecond}, {4, 6, 5, 60 * time.Millisecond}, {1000, 6, 2, 180 * time.Millisecond},
	} {
		j := &Job{Workers: c.workers, Node: c.node, Batch: 30, Timing: timing.Timing{Input: 1000}}
		if got := j.Timeline(c.worker, 0).total; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Reading goes on beside the passes: a step takes the longer of the two, not their sum.
func TestReadingIsALimit(t *testing.T) {
	t.Parallel()
	at := func(input float64) time.Duration {
		j := &Job{Workers: 4, Node: 2, Batch: 30, own: sized{flops: 1e6}, Timing: timing.Timing{FLOPS: 1e9, Input: input}}
		return j.Timeline(1, 7).total
	}
	const passes = 90 * time.Millisecond // three forward passes of 30 samples
	for input, want := range map[float64]time.Duration{
		0:    passes,                 // no limit
		1000: passes,                 // 60 samples of two workers take 60 ms
		500:  120 * time.Millisecond, // and here 120
	} {
		if got := at(input); got != want {
			t.Errorf("%g samples/s: a step's passes take %v, want %v", input, got, want)
		}
	}
}
