package sgd

import (
	"cmp"
	"math"
)

// Lion steps by the sign of a momentum (Chen et al. 2023, "Symbolic discovery of
// optimization algorithms", algorithm 2):
//
//	c ← β₁·m + (1−β₁)·g
//	w ← w − lr·(sign(c) + decay·w)
//	m ← β₂·m + (1−β₂)·g
//
// so that every value moves by lr, and one moment is kept. sign(0) is 0. Decay
// spares biases and normalisations unless all=true.
//
// Tuning: a rate 3 to 10 times below adamw's and a decay as many times above it;
// the paper's betas are 0.9 and 0.99.
//
// Cost: four bytes of state an element, one pass.
type Lion struct {
	Beta1 float64 `doc:"share of the momentum in a step's direction, in [0, 1)"`
	Beta2 float64 `doc:"memory of the momentum, in [0, 1)"`
	Decay float64 `doc:"decoupled weight decay, at least 0"`
	All   bool    `doc:"also decay biases and normalisations"`
}

var _ = Optimizers.Add("lion", "the sign of a momentum", Lion{Beta1: 0.9, Beta2: 0.99})

// Validate checks the ranges.
func (o Lion) Validate() error {
	return cmp.Or(
		check(0 <= o.Beta1 && o.Beta1 < 1, "beta1", o.Beta1, "at least 0 and less than 1"),
		check(0 <= o.Beta2 && o.Beta2 < 1, "beta2", o.Beta2, "at least 0 and less than 1"),
		check(o.Decay >= 0, "decay", o.Decay, "at least 0"),
	)
}

// Momentous is true but for beta1=0.
func (o Lion) Momentous() bool { return o.Beta1 != 0 }

// New makes the Transform; its state is the slot "momentum".
func (o Lion) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &lion{o: o, m: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return composed(l, []Transform{t, shrink(l, o.Decay, o.All)}), nil
}

type lion struct {
	local
	o Lion
	m []float32
}

func (t *lion) step(u, _ []float32, r Range, s Step) {
	u, m := u[r.Lo:r.Hi], t.m[r.Lo:r.Hi]
	b1, c1 := float32(t.o.Beta1), float32(1-t.o.Beta1)
	b2, c2 := float32(t.o.Beta2), float32(1-t.o.Beta2)
	rate := math.Float32bits(float32(s.LR))
	m = m[:len(u)]
	for i, g := range u {
		c := float32(b1*m[i]) + float32(c1*g)
		m[i] = float32(b2*m[i]) + float32(c2*g)
		if c == 0 {
			u[i] = 0
			continue
		}
		u[i] = math.Float32frombits(rate | math.Float32bits(c)&(1<<31))
	}
}

// Slots lists the momentum.
func (t *lion) Slots() []Slot { return []Slot{{"momentum", t.m}} }
