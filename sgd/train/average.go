package train

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// average is the moving average of the parameters that an optimizer makes (Polyak and
// Juditsky 1992, with weights that decay):
//
//	a₀ = w₀;   a ← a + (1 − decay)·(w − a), behind every n-th update
//
// Buffers are averaged as parameters are. Training goes on from w; evaluations, and
// the parameters at the end, are a.
type average struct {
	v     []float32
	share float32 // 1 − decay
	every int
}

// newAverage is the average that the job asks for, of parameters that begin as
// given; nil: it asks for none.
func (j *Job) newAverage(initial []float32) *average {
	if j.EMA == 0 || j.Weightless {
		return nil
	}
	return &average{v: append([]float32(nil), initial...), share: float32(1 - j.EMA), every: max(1, j.EMAEvery)}
}

// take lets values r.Lo … r.Hi − 1 of what an update made, w, into the average. n is
// the number of updates before it.
func (a *average) take(w []float32, r sgd.Range, n int) {
	if a == nil || (n+1)%a.every != 0 {
		return
	}
	v, w := a.v[r.Lo:r.Hi], w[r.Lo:r.Hi]
	for i, x := range w {
		v[i] += float32(a.share * float32(x-v[i])) // not fused: the same bits everywhere
	}
}

// shown is what is evaluated of parameters: their average, if there is one.
func (a *average) shown(params wire.Vector) wire.Vector {
	if a == nil {
		return params
	}
	return wire.Floats(a.v)
}

// checkAverage refuses an average that nobody could keep.
func (j *Job) checkAverage() error {
	switch t := j.traits(); {
	case !(j.EMA >= 0 && j.EMA < 1):
		return fmt.Errorf("ema: decay is %v: want the share of the average that an update leaves, below 1, or 0 for none", j.EMA)
	case j.EMAEvery < 0:
		return fmt.Errorf("ema: every is %d: want at least 1 update", j.EMAEvery)
	case j.EMA == 0:
		return nil
	case t.Coordinator:
		return fmt.Errorf("mode %s steps to the best point of a line and back, and averages none of them; set ema=none", Modes.Spec(j.Mode))
	case t.Conduct != NotConducted:
		return fmt.Errorf("mode %s evaluates the mean of the workers' own parameters, which no rank has an average of; set ema=none", Modes.Spec(j.Mode))
	}
	return nil
}
