package staleness

import "math"

// DCASGD is delay-compensated ASGD with a constant λ, DC-ASGD-c (Zheng et al.
// 2017, equation 10). It is a first-order Taylor expansion of the gradient around the
// parameters it was computed on, with g⊙g in place of the Hessian.
//
//	g ← g + λ·g⊙g⊙(w − w_bak)
//
// w_bak being what the worker was sent. They take λ = 0.04 on CIFAR-10 and
// 2·10⁻⁴ … 2·10⁻² elsewhere, as recalled: it depends on the scale of g², and
// what is good for one net need not be for another.
//
// Tuning: lambda by its effect on a short run; too large a value diverges.
//
// Cost: the parameters that each worker was sent, and one pass more a gradient.
type DCASGD struct {
	Lambda float64 `doc:"strength of the compensation, above 0"`
}

// DCASGDA is DC-ASGD-a (Zheng et al. 2017, equation 14), whose λ follows the
// size of each coordinate's gradients:
//
//	m ← μ·m + (1−μ)·g⊙g      g ← g + λ/√(m+ε)·g⊙g⊙(w − w_bak)
//
// so that it matters less how gradients are scaled. ε = 10⁻⁷; on CIFAR-10
// λ = 2 and μ = 0.95. One m serves all workers, as the paper writes it; the
// authors' program keeps one for each.
//
// Tuning: lambda=2 and mu=0.95, as in the paper.
//
// Cost: four bytes of state an element, the parameters that each worker was
// sent, and one pass more a gradient.
type DCASGDA struct {
	Lambda float64 `doc:"strength of the compensation, above 0"`
	Mu     float64 `doc:"how slowly the mean square forgets, from 0 to below 1"`
}

var (
	_ = Correctors.Add("dcasgd", "delay compensation, constant λ (DC-ASGD-c)", DCASGD{Lambda: 0.04})
	_ = Correctors.Add("dcasgd_a", "delay compensation, λ by mean square (DC-ASGD-a)", DCASGDA{Lambda: 2, Mu: 0.95})
)

// Validate checks the range of Lambda.
func (o DCASGD) Validate() error { return positive("lambda", o.Lambda) }

// Validate checks the ranges.
func (o DCASGDA) Validate() error {
	if err := positive("lambda", o.Lambda); err != nil {
		return err
	}
	return fraction("mu", o.Mu)
}

// Scale is 1.
func (DCASGD) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (DCASGD) Traits() CorrectorTraits { return CorrectorTraits{Amends: true, Compares: true} }

// Scale is 1.
func (DCASGDA) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (DCASGDA) Traits() CorrectorTraits { return CorrectorTraits{Amends: true, Compares: true} }

// Amender implements Amending.
func (o DCASGD) Amender(int, int) Amender { return dcasgd{float32(o.Lambda)} }

// Amender implements Amending.
func (o DCASGDA) Amender(n, _ int) Amender { return &dcasgdA{o, make([]float32, n)} }

type dcasgd struct{ lambda float32 }

func (o dcasgd) Amend(g, now, sent []float32, _ Past) {
	for i, x := range g {
		g[i] = x + float32(o.lambda*x*x*(now[i]-sent[i]))
	}
}

func (dcasgd) State() map[string][]float32 { return nil }

type dcasgdA struct {
	DCASGDA
	square []float32
}

func (o *dcasgdA) Amend(g, now, sent []float32, _ Past) {
	mu, lambda := float32(o.Mu), float32(o.Lambda)
	square, now, sent := o.square[:len(g)], now[:len(g)], sent[:len(g)]
	for i, x := range g {
		m := float32(mu*square[i]) + float32((1-mu)*x*x)
		square[i] = m
		g[i] = x + lambda*x*x*(now[i]-sent[i])/float32(math.Sqrt(float64(m+1e-7)))
	}
}

func (o *dcasgdA) State() map[string][]float32 {
	return map[string][]float32{"square": o.square}
}
