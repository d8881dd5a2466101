package sgd

import (
	"cmp"

	"github.com/gradlab/gradlab/internal/f32"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm
// 2, with the schedule multiplier in lr):
//
//	w ← w − lr·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps) − lr·decay·w
//
// It is decoupled(adam(beta1=…,beta2=…,eps=…),rate=decay,all=…), value by value.
// Departure: decay spares biases and normalisations unless all=true; PyTorch's decays
// them too.
//
// Tuning: as adam; decay 0.01 to 0.1.
//
// Cost: eight bytes of state an element, one pass.
type AdamW struct {
	Beta1 float64 `doc:"memory of the mean, in [0, 1)"`
	Beta2 float64 `doc:"memory of the mean square, in [0, 1)"`
	Eps   float64 `doc:"added to the root, more than 0"`
	Decay float64 `doc:"decoupled weight decay, at least 0"`
	All   bool    `doc:"also decay biases and normalisations"`
}

var _ = Optimizers.Add("adamw", "adam with decoupled weight decay", AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01})

// Validate checks the ranges.
func (o AdamW) Validate() error {
	return cmp.Or(o.adam().Validate(), check(o.Decay >= 0, "decay", o.Decay, "at least 0"))
}

func (o AdamW) adam() Adam { return Adam{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps} }

// Momentous is true but for beta1=0.
func (o AdamW) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slots "mean" and "squares".
func (o AdamW) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return Decoupled{Rule: o.adam(), Rate: o.Decay, All: o.All}.New(l)
}

// shrink adds lr·rate·w to an update: decay beside a rule.
func shrink(l Layout, rate float64, all bool) Transform {
	decayed := domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role.IsWeight() || all && s.Role != Buffer })}
	return &local{decayed, func(u, params []float32, r Range, s Step) {
		f32.Axpy(u[r.Lo:r.Hi], float32(s.LR*rate), params[r.Lo:r.Hi])
	}}
}
