package sgd

import "github.com/gradlab/gradlab/internal/f32"

// ClipValue bounds every coordinate, a filter:
//
//	g ← max(−limit, min(limit, g))
//
// Unlike Clip it turns the direction, but it needs no norm and so runs on
// split tensors.
//
// Tuning: a limit that touches more than a few coordinates in a thousand makes
// the rule a sign method.
//
// Paper: none.
//
// Cost: nothing beside the update's own pass; no state.
type ClipValue struct {
	Limit float64 `doc:"largest magnitude of a coordinate, more than 0"`
}

var _ = Optimizers.Add("clipvalue", "filter: bound every coordinate of the gradient", ClipValue{Limit: 1})

var _ Filter = ClipValue{}

// Validate checks the range of Limit.
func (o ClipValue) Validate() error { return check(o.Limit > 0, "limit", o.Limit, "more than 0") }

// New refuses: a filter needs an update rule behind it.
func (o ClipValue) New(Layout) (Transform, error) { return nil, alone(o) }

// NewFilter makes the Transform; it has no state.
func (o ClipValue) NewFilter(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	limit := float32(o.Limit)
	return &local{trainable(l), func(u, _ []float32, r Range, _ Step) { f32.Clamp(u[r.Lo:r.Hi], limit) }}, nil
}
