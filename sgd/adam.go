package sgd

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

// Adam keeps running means of the gradient and of its square (Kingma and Ba
// 2015, algorithm 1):
//
//	m ← β₁·m + (1−β₁)·g
//	v ← β₂·v + (1−β₂)·g²
//	w ← w − lr·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps),   t = Step.N + 1
//
// t is the count of updates of the run, not of the instance: it comes with the
// step, is no state, and stands in every checkpoint already. Moments that start
// at 0 in the middle of a run are therefore hardly corrected.
//
// Tuning: lr near 0.001 whatever the model; β₂ = 0.99 forgets outliers sooner;
// raise eps to 1e-4 … 1 where gradients are tiny and noisy. decay in front adds
// L2 to the gradient and is rescaled with it; adamw's decay is not.
//
// Cost: eight bytes of state an element, one pass.
type Adam struct {
	Beta1 float64 `doc:"memory of the mean, in [0, 1)"`
	Beta2 float64 `doc:"memory of the mean square, in [0, 1)"`
	Eps   float64 `doc:"added to the root, more than 0"`
}

var _ = Optimizers.Add("adam", "running means of gradient and square, bias corrected", Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8})

// Validate checks the ranges.
func (o Adam) Validate() error {
	return cmp.Or(
		check(0 <= o.Beta1 && o.Beta1 < 1, "beta1", o.Beta1, "at least 0 and less than 1"),
		check(0 <= o.Beta2 && o.Beta2 < 1, "beta2", o.Beta2, "at least 0 and less than 1"),
		check(float32(o.Eps) > 0, "eps", o.Eps, "more than 0"),
	)
}

// Momentous is true but for beta1=0.
func (o Adam) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slots "mean" and "squares".
func (o Adam) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &adam{o: o, m: make([]float32, l.Size()), v: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return t, nil
}

type adam struct {
	local
	o    Adam
	m, v []float32
}

func (t *adam) step(u, _ []float32, r Range, s Step) {
	rates := t.o.rates(s.N)
	rates.Rate = float32(s.LR / (1 - portable.Pow(t.o.Beta1, float64(s.N)+1)))
	f32.Adam(u[r.Lo:r.Hi], t.m[r.Lo:r.Hi], t.v[r.Lo:r.Hi], &rates)
}

// rates are those of the step after n updates, at learning rate 1.
func (o Adam) rates(n int) f32.AdamRates {
	t := float64(n) + 1
	return f32.AdamRates{
		Rate:   float32(1 / (1 - portable.Pow(o.Beta1, t))),
		Unbias: float32(1 / math.Sqrt(1-portable.Pow(o.Beta2, t))),
		B1:     float32(o.Beta1), C1: float32(1 - o.Beta1),
		B2: float32(o.Beta2), C2: float32(1 - o.Beta2),
		Eps: float32(o.Eps),
	}
}

// Slots lists both moments.
func (t *adam) Slots() []Slot { return []Slot{{"mean", t.m}, {"squares", t.v}} }
