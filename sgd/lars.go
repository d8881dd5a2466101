package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// LARS gives every tensor a rate in proportion to its own norm (You, Gitman and
// Ginsburg 2017, "Large batch training of convolutional networks", algorithm 1):
//
//	λ ← trust·‖w‖ / (‖g‖ + decay·‖w‖ + eps)
//	v ← β·v + lr·λ·(g + decay·w)
//	w ← w − v                           nesterov: w ← w − (lr·λ·(g + decay·w) + β·v)
//
// λ is 1 where ‖w‖ or ‖g‖ is 0. It acts on tensors of Role Weight or Embedding. Biases and
// normalisations, and tensors whose name contains one of Skip, take a plain step
// with momentum, λ = 1 and no decay, as in the MLPerf reference, whose rule this is
// with the defaults. Differences: the paper adapts every tensor (all=true); the
// implementation of the TPU models and SimCLR divides by ‖g + decay·w‖ (joint=true).
// With inside=false the rate stays out of the velocity, as in momentum; both forms
// agree while the rate does not change.
//
// Norms are those of whole tensors, summed in float64. It has weight decay of its
// own: decay in front would be counted in ‖g‖.
//
// Tuning: rates are far above those of sgd, as λ is near trust: MLPerf has lr 10 at
// batch 4,096 to 25 at 65,536 (schedule mlperf), decay 2e-4 to 2.5e-5. Tuned Nesterov
// momentum reaches the same at batch 32,768 (Nado et al. 2021): tune both before
// comparing.
//
// Cost: four bytes of state an element, and a pass more for the norms of each
// tensor.
type LARS struct {
	Trust    float64  `doc:"trust coefficient, more than 0"`
	Beta     float64  `doc:"share of the velocity kept from step to step, in [0, 1)"`
	Decay    float64  `doc:"weight decay, at least 0"`
	Eps      float64  `doc:"added to the norms it divides by, at least 0"`
	Nesterov bool     `doc:"look ahead by the velocity"`
	Inside   bool     `doc:"the velocity absorbs the learning rate"`
	Joint    bool     `doc:"divide by the norm of gradient and decay together"`
	All      bool     `doc:"adapt and decay biases and normalisations too"`
	Skip     []string `doc:"parts of names of tensors that are neither adapted nor decayed"`
}

var _ = Optimizers.Add("lars", "a rate for every tensor in proportion to its norm", LARS{
	Trust: 0.001, Beta: 0.9, Decay: 1e-4, Inside: true,
})

var _ Whole = LARS{}

// Validate checks the ranges.
func (o LARS) Validate() error {
	return cmp.Or(
		check(o.Trust > 0, "trust", o.Trust, "more than 0"),
		check(0 <= o.Beta && o.Beta < 1, "beta", o.Beta, "at least 0 and less than 1"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
		check(o.Eps >= 0, "eps", o.Eps, "at least 0"),
	)
}

// NeedsWhole is true: norms are those of whole tensors.
func (LARS) NeedsWhole() bool { return true }

// Momentous is true but for beta=0.
func (o LARS) Momentous() bool { return o.Beta != 0 }

// RateInside is true with inside=true and a momentum.
func (o LARS) RateInside() bool { return o.Inside }

// New makes the Transform; its state is the slot "velocity".
func (o LARS) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &lars{layered: newLayered(l, o.All, o.Skip), o: o, v: make([]float32, l.Size())}
	t.kernel = t.step
	return t, nil
}

type lars struct {
	layered
	o LARS
	v []float32
}

func (t *lars) step(u, params []float32, r Range, adapted bool, s Step) {
	u, v, w := u[r.Lo:r.Hi], t.v[r.Lo:r.Hi], params[r.Lo:r.Hi]
	lr, beta, scale := float32(s.LR), float32(t.o.Beta), 1.0
	if adapted {
		scale = t.trust(u, w)
	}
	if t.o.Inside {
		scale *= s.LR
		lr = 1
	}
	if scale != 1 {
		f32.Scale(u, float32(scale))
	}
	if t.o.Nesterov {
		f32.Nesterov(u, v, lr, beta)
	} else {
		f32.Momentum(u, v, lr, beta)
	}
}

// trust adds the decay to the gradient and is λ.
func (t *lars) trust(u, w []float32) float64 {
	var g float64
	if !t.o.Joint {
		g = math.Sqrt(f32.SumSq(u))
	}
	if t.o.Decay != 0 {
		f32.Axpy(u, float32(t.o.Decay), w)
	}
	norm := math.Sqrt(f32.SumSq(w))
	below := g + float64(t.o.Decay*norm) + t.o.Eps
	if t.o.Joint {
		g = math.Sqrt(f32.SumSq(u))
		below = g + t.o.Eps
	}
	if !(norm > 0) || !(g > 0) {
		return 1
	}
	return t.o.Trust * norm / below
}

// Slots lists the velocity.
func (t *lars) Slots() []Slot { return []Slot{{"velocity", t.v}} }
