package sgd

import "math"

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
		sum += sumSquares(u[r.Lo:r.Hi])
	}
	norm := math.Sqrt(sum)
	if norm <= t.norm {
		return
	}
	scale := float32(t.norm / norm)
	for _, r := range t.ranges {
		u := u[r.Lo:r.Hi]
		for i, g := range u {
			u[i] = scale * g
		}
	}
}

// sumSquares is Σx² in float64, over four independent sums for speed.
func sumSquares(x []float32) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		p, q, r, s := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		a, b, c, d = a+p*p, b+q*q, c+r*r, d+s*s
	}
	for _, v := range x {
		a += float64(v) * float64(v)
	}
	return (a + b) + (c + d)
}
