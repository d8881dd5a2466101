package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Decay is L2 weight decay, a filter:
//
//	g ← g + rate·w
//
// on spans of Role Weight or Embedding only, or on all trainable spans with all=true. Biases
// and the scale and shift of normalisations are left alone, as in Goyal et al.
// 2017. The term joins the gradient after averaging and so is never scaled with
// the loss or with the number of workers (their remark 1).
//
// Order matters: chain(decay,clip,…) clips the decay term with the gradient,
// chain(clip,decay,…) does not.
//
// With momentum=m the term has a velocity of its own:
//
//	v ← m·v + rate·w
//	g ← g + v
//
// for gradients that come with their momentum inside, as those of codec dgc do
// (Lin et al. 2018): chain(decay(rate=1e-4,momentum=0.9),sgd) behind it decays as
// chain(decay(rate=1e-4),momentum(beta=0.9)) does without it, where
// chain(decay(rate=1e-4),sgd) is 1/(1−m) times weaker. It is the optimizer of the
// authors' code (DGCSGD, without Nesterov).
//
// Tuning: 1e-4 for residual networks, 5e-4 for plain ones. With adaptive rules
// the term is rescaled like the gradient and acts more weakly.
//
// Cost: the parameters are read; with momentum four bytes of state an element.
type Decay struct {
	Rate     float64 `doc:"added share of the weight, at least 0"`
	All      bool    `doc:"also decay biases and normalisations"`
	Momentum float64 `doc:"share of the term's own velocity kept from step to step, in [0, 1); that of codec dgc in front of sgd, else 0"`
}

var _ = Optimizers.Add("decay", "filter: L2 weight decay, g += rate·w", Decay{Rate: 1e-4})

var _ Filter = Decay{}

// Validate checks the ranges of Rate and Momentum.
func (o Decay) Validate() error {
	if err := check(o.Rate >= 0, "rate", o.Rate, "at least 0"); err != nil {
		return err
	}
	return check(0 <= o.Momentum && o.Momentum < 1, "momentum", o.Momentum, "at least 0 and less than 1")
}

// New refuses: a filter needs an update rule behind it.
func (o Decay) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; with momentum its state is the slot "decay".
func (o Decay) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rate := float32(o.Rate)
	decayed := domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role.IsWeight() || o.All && s.Role != Buffer })}
	if o.Momentum > 0 {
		t := &decayVelocity{rate: rate, momentum: float32(o.Momentum), v: make([]float32, l.Size())}
		t.local = local{decayed, t.step}
		return t, nil
	}
	return &local{decayed, func(u, params []float32, r Range, _ Step) {
		f32.Axpy(u[r.Lo:r.Hi], rate, params[r.Lo:r.Hi])
	}}, nil
}

// decayVelocity is weight decay with a velocity of its own.
type decayVelocity struct {
	local
	rate, momentum float32
	v              []float32
}

func (t *decayVelocity) step(u, params []float32, r Range, _ Step) {
	v := t.v[r.Lo:r.Hi]
	f32.Scale(v, t.momentum)
	f32.Axpy(v, t.rate, params[r.Lo:r.Hi])
	f32.Add(u[r.Lo:r.Hi], v)
}

// Slots lists the velocity of the decay.
func (t *decayVelocity) Slots() []Slot { return []Slot{{"decay", t.v}} }
