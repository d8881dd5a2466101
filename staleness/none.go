package staleness

// None leaves late gradients as they are.
//
// Rule: α(τ) = α.
//
// Paper: none.
//
// Tuning: lower the rate or the momentum as workers are added.
//
// Cost: none.
type None struct{}

var _ = Correctors.Add("none", "late gradients count in full", None{})

// Scale is 1.
func (None) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (None) Traits() CorrectorTraits { return CorrectorTraits{None: true} }
