package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Plain is stochastic gradient descent without memory (Robbins and Monro 1951):
//
//	w ← w − lr·g
//
// The rule of the stale-gradient theory, the server's half of DANA-slim, and
// what every other rule is measured against.
//
// Tuning: the rate alone. Where momentum β took rate lr, as long a step is
// lr/(1−β) here.
//
// Cost: no state, one pass.
type Plain struct{}

var _ = Optimizers.Add("sgd", "plain gradient descent: w −= lr·g", Plain{})

// Bare is true.
func (Plain) Bare() bool { return true }

// New makes the Transform; it has no state.
func (Plain) New(l Layout) (Transform, error) {
	return &local{trainable(l), func(u, _ []float32, r Range, s Step) {
		f32.Scale(u[r.Lo:r.Hi], float32(s.LR))
	}}, nil
}
