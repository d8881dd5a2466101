package train

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/sgd/train/timing"
)

// The workers of a node share what it reads, also of a last node that has fewer.
func TestInput(t *testing.T) {
	for _, c := range []struct {
		node, workers, worker int
		want                  time.Duration
	}{
		{0, 6, 5, 30 * time.Millisecond}, {1, 6, 5, 30 * time.Millisecond},
		{4, 6, 0, 120 * time.Millisecond}, {4, 6, 3, 120 * time.Millisecond}, {4, 6, 5, 60 * time.Millisecond}, {1000, 6, 2, 180 * time.Millisecond},
	} {
		j := &Job{Workers: c.workers, Node: c.node, Batch: 30, Timing: timing.Timing{Input: 1000}}
		if got := j.timeline(c.worker, 0).total; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
