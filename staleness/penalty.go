package staleness

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Power divides the rate of a gradient by a power of its staleness τ:
//
//	α(τ) = α·(1 + τ)^−a
//
// a = 1/2 is the square root; FedAsync (Xie et al. 2019, "polynomial") has a = 0.5 too.
// AlphaTau, with a = 1, spares τ = 1, which this does not.
//
// Tuning: a=0.5; a larger one where workers are many.
//
// Cost: none.
type Power struct {
	A float64 `spec:"a,show" doc:"exponent, above 0: 0.5 is 1/√(1+τ)"`
}

// Exponential is the exponential penalty (Chan and Lane 2014):
//
//	α(τ) = α·exp(−ρτ)
//
// Late gradients soon count for nothing, so that with many workers little is
// learnt: at the mean staleness of P equal workers the factor is e^−ρ(P−1).
// They used it with at most five.
//
// Tuning: rho about one over the mean staleness, workers − 1.
//
// Cost: none.
type Exponential struct {
	Rho float64 `spec:"rho,show" doc:"decay an update, above 0"`
}

// Mean divides every rate by the mean staleness ⟨σ⟩ of all gradients applied so
// far (Gupta et al. 2016):
//
//	α = α/max(1, ⟨σ⟩)
//
// where the paper puts the value it expects, n for n-softsync. One factor for
// all, so what is late counts as much as what is fresh; it forgets nothing, and
// starts at 1.
//
// Tuning: none.
//
// Cost: none.
type Mean struct{}

// AdaDelay lets the rate fall with time and staleness together (Sra et al.
// 2016, without the factors of single coordinates):
//
//	α(t, τ) = α/(1 + c·√(t + τ))
//
// with t the updates applied. Use a constant schedule beside it: this is one.
//
// Tuning: c=0.01; a larger one brakes sooner.
//
// Cost: none.
type AdaDelay struct {
	C float64 `spec:"c,show" doc:"how fast the rate falls, above 0"`
}

var (
	_ = Correctors.Add("power", "divide the rate by (1+staleness)^a", Power{A: 0.5})
	_ = Correctors.Add("exponential", "exponential penalty of staleness", Exponential{Rho: 0.1})
	_ = Correctors.Add("mean", "divide the rate by the mean staleness so far", Mean{})
	_ = Correctors.Add("adadelay", "divide the rate by 1 + c·√(updates + staleness)", AdaDelay{C: 0.01})
)

func positive(option string, v float64) error {
	if !(v > 0 && v <= math.MaxFloat64) {
		return fmt.Errorf("option %q is %g; want a number above 0", option, v)
	}
	return nil
}

// Validate checks the range of A.
func (o Power) Validate() error { return positive("a", o.A) }

// Validate checks the range of Rho.
func (o Exponential) Validate() error { return positive("rho", o.Rho) }

// Validate checks the range of C.
func (o AdaDelay) Validate() error { return positive("c", o.C) }

// Scale is (1+Delay)^−A.
func (o Power) Scale(p Past) float64 { return portable.Pow(1+float64(p.Delay), -o.A) }

// Traits implements Corrector.
func (Power) Traits() CorrectorTraits { return CorrectorTraits{} }

// Scale is exp(−Rho·Delay).
func (o Exponential) Scale(p Past) float64 { return portable.Exp(-o.Rho * float64(p.Delay)) }

// Traits implements Corrector.
func (Exponential) Traits() CorrectorTraits { return CorrectorTraits{} }

// Scale is 1/Mean, at most 1.
func (Mean) Scale(p Past) float64 { return 1 / max(1, p.Mean) }

// Traits implements Corrector.
func (Mean) Traits() CorrectorTraits { return CorrectorTraits{} }

// Scale is 1/(1 + C·√(Update+Delay)).
func (o AdaDelay) Scale(p Past) float64 {
	return 1 / (1 + float64(o.C*math.Sqrt(float64(p.Update+p.Delay))))
}

// Traits implements Corrector.
func (AdaDelay) Traits() CorrectorTraits { return CorrectorTraits{} }
