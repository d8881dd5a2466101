package nn

import "math"

// GELU is the Gaussian error linear unit (Hendrycks and Gimpel 2016), with the
// normal distribution Φ itself and not one of its approximations by tanh:
//
//	y = x·Φ(x),  dx = dy·(Φ(x) + x·φ(x)),  φ(x) = exp(−x²/2)/√(2π)
type GELU struct{}

func (GELU) bind(b *builder, x int) (int, error) {
	return b.emit(geluBound{}, x, b.shape(x)), nil
}

type geluBound struct{}

func (geluBound) traits() traits   { return traits{readsX: true, spoils: true, passes: true} }
func (geluBound) instance([]op) op { return gelu{} }

type gelu struct{ noHooks }

func (gelu) forward(_ *run, p *microbatch) {
	y := p.y[:len(p.x)]
	for i, v := range p.x {
		below, _ := normal(float64(v))
		y[i] = float32(float64(v) * below)
	}
}

func (gelu) backward(_ *run, p *microbatch) {
	dy := p.dy[:len(p.x)]
	for i, v := range p.x {
		below, density := normal(float64(v))
		dy[i] *= float32(below + float64(v)*density)
	}
}

// normal returns Φ(x) and φ(x). Φ is off by at most 7.5e-8, about a rounding of
// float32 (Abramowitz and Stegun 1964, formula 7.1.26, at |x|/√2), φ by 1e-9.
func normal(x float64) (below, density float64) {
	e := expDown(min(x*x/2, 700))
	t := 1 / (1 + 0.3275911/math.Sqrt2*math.Abs(x))
	tail := 0.5 * e * t * (0.254829592 + t*(-0.284496736+t*(1.421413741+t*(-1.453152027+t*1.061405429))))
	if x > 0 {
		tail = 1 - tail
	}
	return tail, e * (1 / (math.Sqrt2 * math.SqrtPi))
}

// expDown is exp(−x) for 0 ≤ x ≤ 700: 2^−k by its bits, times the series of the rest,
// of at most ln 2 / 2 either way, to its eighth term.
func expDown(x float64) float64 {
	k := int(x*math.Log2E + 0.5)
	r := float64(k)*math.Ln2 - x
	s := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r*(1./120+r*(1./720+r*(1./5040)))))))
	return s * math.Float64frombits(uint64(1023-k)<<52)
}
