package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Nesterov is accelerated momentum (Nesterov 1983, Sutskever et al. 2013) in
// the form that keeps w at the look-ahead point:
//
//	v ← β·v + g
//	w ← w − lr·(g + β·v)
//
// It is the rule of Goyal et al. 2017, with β = 0.9. As in Momentum the
// learning rate stays outside v and needs no correction when it changes, and
// Inside puts it there: v ← β·v + lr·g, w ← w − (lr·g + β·v).
//
// Departure: Nesterov's varying β is fixed.
//
// Tuning: as Momentum. It reacts a step sooner than the heavy ball and bears
// larger rates on ill-conditioned problems, but with many asynchronous workers
// it is the first to break (Hakimi et al. 2019).
//
// Cost: four bytes of state an element, one pass.
type Nesterov struct {
	Beta   float64 `doc:"share of the velocity kept from step to step, in (-1, 1)"`
	Inside bool    `doc:"the velocity absorbs the learning rate: no momentum correction"`
}

var _ = Optimizers.Add("nesterov", "look-ahead momentum: v = beta·v + g, w −= lr·(g + beta·v)", Nesterov{Beta: 0.9})

// Validate checks the range of Beta.
func (o Nesterov) Validate() error { return Momentum(o).Validate() }

// Momentous is true but for beta=0.
func (o Nesterov) Momentous() bool { return o.Beta != 0 }

// Bare is true for beta=0.
func (o Nesterov) Bare() bool { return o.Beta == 0 && !o.Inside }

// RateInside is true with inside=true.
func (o Nesterov) RateInside() bool { return o.Inside }

// New makes the Transform; its state is the slot "velocity".
func (o Nesterov) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &nesterov{beta: float32(o.Beta), inside: o.Inside, v: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return t, nil
}

type nesterov struct {
	local
	beta   float32
	inside bool
	v      []float32
}

func (t *nesterov) step(u, _ []float32, r Range, s Step) {
	u, v, lr := u[r.Lo:r.Hi], t.v[r.Lo:r.Hi], float32(s.LR)
	if t.inside {
		f32.Scale(u, lr)
		lr = 1
	}
	f32.Nesterov(u, v, lr, t.beta)
}

// Slots lists the velocity.
func (t *nesterov) Slots() []Slot { return []Slot{{"velocity", t.v}} }
