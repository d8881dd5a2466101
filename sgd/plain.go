package sgd

// Plain is stochastic gradient descent without memory (Robbins and Monro 1951):
//
//	w ← w − lr·g
//
// The rule of the stale-gradient theory, the server's half of DANA-slim, and
// what every other rule is measured against.
type Plain struct{}

var _ = Optimizers.Add("sgd", "plain gradient descent: w −= lr·g", Plain{})

// New makes the Transform; it has no state.
func (Plain) New(l Layout) (Transform, error) { return &plain{trainable(l)}, nil }

type plain struct{ domain }

func (t *plain) Apply(u, _ []float32, s Step) {
	lr := float32(s.LR)
	for _, r := range t.of(u) {
		u := u[r.Lo:r.Hi]
		for i, g := range u {
			u[i] = lr * g
		}
	}
}
