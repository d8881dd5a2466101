//go:build !arm64

package portable

import "math"

// FMA returns x·y + z, rounded once.
func FMA(x, y, z float32) float32 { return sum(float64(x)*float64(y), float64(z)) }

// AddScaled sets s to s + a·x, each element rounded once.
func AddScaled(s *[16]float32, a float32, x *[16]float32) {
	f := float64(a)
	for j, v := range s {
		p := f * float64(x[j])
		t := p + float64(v)
		if b := math.Float64bits(t); isTie(b) || isTiny(b) {
			s[j] = float32(OddSum(p, float64(v)))
		} else {
			s[j] = float32(t)
		}
	}
}
