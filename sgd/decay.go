package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Decay is L2 weight decay, a filter:
//
//	g ← g + rate·w
//
// on spans of Role Weight only, or on all trainable spans with all=true. Biases
// and the scale and shift of normalisations are left alone, as in Goyal et al.
// 2017. The term joins the gradient after averaging and so is never scaled with
// the loss or with the number of workers (their remark 1).
//
// Order matters: chain(decay,clip,…) clips the decay term with the gradient,
// chain(clip,decay,…) does not.
//
// Tuning: 1e-4 for residual networks, 5e-4 for plain ones. With adaptive rules
// the term is rescaled like the gradient and acts more weakly.
type Decay struct {
	Rate float64 `doc:"added share of the weight, at least 0"`
	All  bool    `doc:"also decay biases and normalisations"`
}

var _ = Optimizers.Add("decay", "filter: L2 weight decay, g += rate·w", Decay{Rate: 1e-4})

var _ Filter = Decay{}

// Validate checks the range of Rate.
func (o Decay) Validate() error { return check(o.Rate >= 0, "rate", o.Rate, "at least 0") }

// New refuses: a filter needs an update rule behind it.
func (o Decay) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; it has no state.
func (o Decay) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rate := float32(o.Rate)
	decayed := l.Ranges(func(s Span) bool { return s.Role == Weight || o.All && s.Role != Buffer })
	return &local{domain{l.Size(), decayed}, func(u, params []float32, r Range, _ Step) {
		f32.Axpy(u[r.Lo:r.Hi], rate, params[r.Lo:r.Hi])
	}}, nil
}
