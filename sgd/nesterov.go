package sgd

// Nesterov is accelerated momentum (Nesterov 1983, Sutskever et al. 2013) in
// the form that keeps w at the look-ahead point:
//
//	v ← β·v + g
//	w ← w − lr·(g + β·v)
//
// It is the rule of Goyal et al. 2017, with β = 0.9. As in Momentum the
// learning rate stays outside v and needs no correction when it changes.
// Departure: Nesterov's varying β is fixed.
//
// Tuning: as Momentum. It reacts a step sooner than the heavy ball and bears
// larger rates on ill-conditioned problems, but with many asynchronous workers
// it is the first to break (Hakimi et al. 2019).
type Nesterov struct {
	Beta float64 `doc:"share of the velocity kept from step to step, in (-1, 1)"`
}

var _ = Optimizers.Add("nesterov", "look-ahead momentum: v = beta·v + g, w −= lr·(g + beta·v)", Nesterov{Beta: 0.9})

// Validate checks the range of Beta.
func (o Nesterov) Validate() error { return Momentum(o).Validate() }

// New makes the Transform; its state is the slot "velocity".
func (o Nesterov) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &nesterov{trainable(l), float32(o.Beta), make([]float32, l.Size())}, nil
}

type nesterov struct {
	domain
	beta float32
	v    []float32
}

func (t *nesterov) Apply(u, _ []float32, s Step) {
	lr, beta := float32(s.LR), t.beta
	for _, r := range t.of(u) {
		u := u[r.Lo:r.Hi]
		v := t.v[r.Lo:r.Hi][:len(u)]
		for i, g := range u {
			x := beta*v[i] + g
			v[i] = x
			u[i] = lr * (g + beta*x)
		}
	}
}

// Slots lists the velocity.
func (t *nesterov) Slots() []Slot { return []Slot{{"velocity", t.v}} }
