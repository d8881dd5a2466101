package staleness

// AlphaTau divides the rate of a gradient by its staleness τ (Zhang, Gupta,
// Lian and Liu 2016):
//
//	α(τ) = α/τ for τ > 0,   α for τ = 0
//
// τ = 1 thus costs nothing. The factor belongs to the gradient: in an update
// from several, each brings its own. Zhang et al. keep the single-learner rate
// and momentum 0.9 beside it.
//
// An update moves the parameters by less, so compare runs of many workers at
// equal accuracy, not at equal epochs.
//
// Tuning: none; the rate is that of one worker.
//
// Cost: none.
type AlphaTau struct{}

var _ = Correctors.Add("alpha_tau", "divide the rate by the staleness", AlphaTau{})

// Scale is 1/Delay, and 1 for a gradient that is not late.
func (AlphaTau) Scale(p Past) float64 { return 1 / float64(max(1, p.Delay)) }

// Traits implements Corrector.
func (AlphaTau) Traits() CorrectorTraits { return CorrectorTraits{} }
