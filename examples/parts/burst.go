package parts

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Burst is a step that takes Times times as long with probability Share, and less than
// the mean otherwise: (1 − Share·Times)/(1 − Share) of it, so that the mean is 1.
type Burst struct {
	Share float64 `doc:"how often, in [0, 1)"`
	Times float64 `doc:"how long then, in means; share·times at most 1"`
}

var _ = timing.Laws.Add("burst", "some steps take very long, the others alike", Burst{Share: 0.01, Times: 10})

// Validate checks that a mean of 1 is left.
func (l Burst) Validate() error {
	if !(l.Share >= 0 && l.Share < 1 && l.Times >= 0 && l.Share*l.Times <= 1) {
		return fmt.Errorf("options share=%v, times=%v: want a share in [0, 1) and a product of at most 1", l.Share, l.Times)
	}
	return nil
}

// Factor implements timing.Law.
func (l Burst) Factor(k timing.Key) float64 {
	if k.Float64(0) < l.Share {
		return l.Times
	}
	return (1 - l.Share*l.Times) / (1 - l.Share)
}
