package f32

import "math"

// The Gaussian error linear unit, in float64: products are rounded before they are
// added, so that the bits are the same on every machine.

// GELU multiplies each element by the normal distribution below it:
//
//	for i: y[i] = x[i]·Φ(x[i])
//
// Φ is off by at most 7.5e-8, about a rounding of float32. It panics unless
// len(x) == len(y).
func GELU(y, x []float32) {
	same("GELU", len(x), len(y))
	n := geluAVX512(y, x)
	n += geluAVX2(y[n:], x[n:])
	geluGo(y[n:], x[n:])
}

func geluGo(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		below, _ := normal(float64(v))
		y[i] = float32(float64(v) * below)
	}
}

// GELUGrad takes a gradient back through GELU, in place; x is what GELU read:
//
//	for i: dy[i] *= Φ(x[i]) + x[i]·φ(x[i]),  φ(x) = exp(−x²/2)/√(2π)
//
// φ is off by at most 1e-9. It panics unless len(x) == len(dy).
func GELUGrad(dy, x []float32) {
	same("GELUGrad", len(x), len(dy))
	n := geluGradAVX512(dy, x)
	n += geluGradAVX2(dy[n:], x[n:])
	geluGradGo(dy[n:], x[n:])
}

func geluGradGo(dy, x []float32) {
	dy = dy[:len(x)]
	for i, v := range x {
		below, e := normal(float64(v))
		density := e * (1 / (math.Sqrt2 * math.SqrtPi))
		dy[i] *= float32(below + float64(float64(v)*density))
	}
}

// normal returns Φ(x) and e^(−x²/2). Φ is by Abramowitz and Stegun 1964, formula
// 7.1.26, at |x|/√2.
func normal(x float64) (below, e float64) {
	e = expDown(min(x*x/2, 700))
	t := 1 / (1 + float64(0.3275911/math.Sqrt2*math.Abs(x)))
	below = float64(0.5 * e * t * (0.254829592 + float64(t*(-0.284496736+float64(t*(1.421413741+float64(t*(-1.453152027+float64(t*1.061405429)))))))))
	if x > 0 {
		below = 1 - below
	}
	return below, e
}

// expDown is exp(−x) for 0 ≤ x ≤ 700: 2^−k by its bits, times the series of the rest,
// of at most ln 2 / 2 either way, to its eighth term.
func expDown(x float64) float64 {
	k := int(float64(x*math.Log2E) + 0.5)
	r := float64(float64(k)*math.Ln2) - x
	s := 1 + float64(r*(1+float64(r*(1./2+float64(r*(1./6+float64(r*(1./24+float64(r*(1./120+float64(r*(1./720+float64(r*(1./5040))))))))))))))
	return s * math.Float64frombits(uint64(1023-k)<<52)
}
