package sgd

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// Clip bounds the global norm, a filter (Pascanu, Mikolov and Bengio 2013):
//
//	g ← g · min(1, norm/‖g‖₂)
//
// ‖g‖ runs over all trainable spans together and is summed in float64, so the
// direction is kept. It needs the whole vector at once (NeedsWhole).
//
// Tuning: log ‖g‖ of a healthy run and take a little more than its median;
// Norm is in units of the mean gradient, before the learning rate.
type Clip struct {
	Norm float64 `doc:"largest global norm, more than 0"`
}

var _ = Optimizers.Add("clip", "filter: bound the global norm of the gradient", Clip{Norm: 1})

var (
	_ Filter = Clip{}
	_ Whole  = Clip{}
)

// Validate checks the range of Norm.
func (o Clip) Validate() error { return check(o.Norm > 0, "norm", o.Norm, "more than 0") }

// NeedsWhole is true: the norm is that of the whole vector.
func (Clip) NeedsWhole() bool { return true }

// New refuses: a filter needs an update rule behind it.
func (o Clip) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; it has no state.
func (o Clip) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &clip{trainable(l), o.Norm}, nil
}

type clip struct {
	domain
	norm float64
}

func (t *clip) Apply(u, _ []float32, _ Step) {
	var sum float64
	for _, r := range t.of(u) {
		sum += f32.SumSq(u[r.Lo:r.Hi])
	}
	norm := math.Sqrt(sum)
	if norm <= t.norm {
		return
	}
	scale := float32(t.norm / norm)
	for _, r := range t.ranges {
		f32.Scale(u[r.Lo:r.Hi], scale)
	}
}
