package compute

import (
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Average is the moving average of the parameters that an optimizer makes (Polyak and
// Juditsky 1992, with weights that decay):
//
//	a₀ = w₀;   a ← a + (1 − decay)·(w − a), behind every n-th update
//
// Buffers are averaged as parameters are. Training goes on from w; evaluations, and
// the parameters at the end, are a.
type Average struct {
	v     []float32
	share float32 // 1 − decay
	every int
}

// Take lets values r.Lo … r.Hi − 1 of what an update made, w, into the average. n is
// the number of updates before it.
func (a *Average) Take(w []float32, r sgd.Range, n int) {
	if a == nil || (n+1)%a.every != 0 {
		return
	}
	v, w := a.v[r.Lo:r.Hi], w[r.Lo:r.Hi]
	for i, x := range w {
		v[i] += float32(a.share * float32(x-v[i])) // not fused: the same bits everywhere
	}
}

// Shown is what is evaluated of parameters: their average, if there is one.
func (a *Average) Shown(params wire.Vector) wire.Vector {
	if a == nil {
		return params
	}
	return wire.Floats(a.v)
}

// NewAverage makes the average of parameters that begin as given, with the decay of an update
// and every how many updates it takes them in; decay 0: there is none, nil.
func NewAverage(initial []float32, decay float64, every int) *Average {
	if decay == 0 {
		return nil
	}
	return &Average{v: append([]float32(nil), initial...), share: float32(1 - decay), every: max(1, every)}
}
