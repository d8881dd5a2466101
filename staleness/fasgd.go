package staleness

import "math"

// FASGD divides the rate of each coordinate by a moving standard deviation of
// its gradient (Odena 2016), which stands in for staleness. Where gradients
// vary much, a late one is a poor guess of the present one.
//
//	n ← γn + (1−γ)g²   b ← γb + (1−γ)g   v ← βv + (1−β)√(n − b² + ε)
//	g ← g/v
//
// γ = β = 0.9, ε = 10⁻⁴.
//
// Departures: n, b and v are bias-corrected, so that the first updates are not
// huge; and the paper's formulas are as recalled, only its abstract being at
// hand. As g/v has about unit size, the rate is that of an adaptive method:
// 0.001 … 0.01 instead of 0.1.
//
// Tuning: the rate, from 0.001 to 0.01; the rest as in the paper.
//
// Cost: twelve bytes of state an element at the server.
type FASGD struct {
	Gamma float64 `doc:"how slowly the moments forget, from 0 to below 1"`
	Beta  float64 `doc:"how slowly the deviation forgets, from 0 to below 1"`
}

var _ = Correctors.Add("fasgd", "divide each coordinate by its gradient's moving deviation", FASGD{Gamma: 0.9, Beta: 0.9})

// Validate checks the ranges.
func (o FASGD) Validate() error {
	if err := fraction("gamma", o.Gamma); err != nil {
		return err
	}
	return fraction("beta", o.Beta)
}

// Scale is 1.
func (FASGD) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (FASGD) Traits() CorrectorTraits { return CorrectorTraits{Amends: true} }

// Amender implements Amending.
func (o FASGD) Amender(n, _ int) Amender {
	return &fasgd{o, make([]float32, n), make([]float32, n), make([]float32, n), []float32{0, 0}}
}

type fasgd struct {
	FASGD
	n, b, v []float32
	weight  []float32 // that n and b, and v, have gathered: 1 in the end
}

func (o *fasgd) Amend(g, _, _ []float32, _ Past) {
	const eps = 1e-4
	gamma, beta := float32(o.Gamma), float32(o.Beta)
	o.weight[0] = float32(gamma*o.weight[0]) + 1 - gamma
	o.weight[1] = float32(beta*o.weight[1]) + 1 - beta
	w, u := 1/o.weight[0], 1/o.weight[1]
	for i, x := range g {
		o.n[i] = float32(gamma*o.n[i]) + float32((1-gamma)*x*x)
		o.b[i] = float32(gamma*o.b[i]) + float32((1-gamma)*x)
		mean := o.b[i] * w
		o.v[i] = float32(beta*o.v[i]) + float32((1-beta)*float32(math.Sqrt(float64(max(float32(o.n[i]*w)-float32(mean*mean), 0)+eps))))
		g[i] = x / (o.v[i] * u)
	}
}

func (o *fasgd) State() map[string][]float32 {
	return map[string][]float32{"n": o.n, "b": o.b, "v": o.v, "weight": o.weight}
}
