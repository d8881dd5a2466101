package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Momentum is the heavy ball (Polyak 1964):
//
//	v ← β·v + g
//	w ← w − lr·v
//
// The learning rate stays outside v, so warm-up and step decay act at once on
// the whole velocity. With Inside the velocity absorbs it,
//
//	v ← β·v + lr·g
//	w ← w − v
//
// and goes on with the old rates after a change. Goyal et al. 2017 (remark 2)
// correct that by a factor lr′/lr on v ("momentum correction"), which is the first
// form, rewritten: Inside is the form without the correction, to compare with.
//
// Tuning: the steady step is lr/(1−β) gradients long, so lr goes down as β goes
// up. M asynchronous workers add about 1−1/M of momentum themselves
// (Mitliagkas et al. 2016), so lower β with their number, below 0 if need be.
// Liu et al. 2018 found 0.9, 0.9, 0.7, 0.5 best for 1, 2, 4, 8 workers.
//
// Cost: four bytes of state an element, one pass.
type Momentum struct {
	Beta   float64 `doc:"share of the velocity kept from step to step, in (-1, 1)"`
	Inside bool    `doc:"the velocity absorbs the learning rate: no momentum correction"`
}

var _ = Optimizers.Add("momentum", "heavy ball: v = beta·v + g, w −= lr·v", Momentum{Beta: 0.9})

// Validate checks the range of Beta.
func (o Momentum) Validate() error {
	return check(-1 < o.Beta && o.Beta < 1, "beta", o.Beta, "more than -1 and less than 1")
}

// Momentous is true but for beta=0.
func (o Momentum) Momentous() bool { return o.Beta != 0 }

// Bare is true for beta=0.
func (o Momentum) Bare() bool { return o.Beta == 0 && !o.Inside }

// RateInside is true with inside=true.
func (o Momentum) RateInside() bool { return o.Inside }

// New makes the Transform; its state is the slot "velocity".
func (o Momentum) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &momentum{beta: float32(o.Beta), inside: o.Inside, v: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return t, nil
}

type momentum struct {
	local
	beta   float32
	inside bool
	v      []float32
}

func (t *momentum) step(u, _ []float32, r Range, s Step) {
	u, v, lr := u[r.Lo:r.Hi], t.v[r.Lo:r.Hi], float32(s.LR)
	if t.inside {
		f32.Scale(u, lr)
		lr = 1
	}
	f32.Momentum(u, v, lr, t.beta)
}

// Slots lists the velocity.
func (t *momentum) Slots() []Slot { return []Slot{{"velocity", t.v}} }
