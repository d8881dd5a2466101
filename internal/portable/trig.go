package portable

import "math"

// π as a sum.
const (
	piHi = math.Pi
	piLo = 0x1.1a62633145c07p-53
)

// CosPi returns cos(πx), within 0.8 of a unit in the last place, exact where x is a multiple
// of ½.
func CosPi(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	r := math.Abs(math.Mod(x, 2)) // exact
	if r > 1 {
		r = 2 - r // exact
	}
	switch {
	case r <= 0.25:
		return cosPi(r)
	case r <= 0.75:
		return sinPi(0.5 - r)
	}
	return -cosPi(1 - r)
}

// SinPi returns sin(πx), within 0.8 of a unit in the last place, exact where x is a multiple
// of ½.
func SinPi(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	r, sign := math.Mod(x, 2), 1.0
	if r < 0 {
		r, sign = -r, -1
	}
	if r > 1 {
		r, sign = r-1, -sign
	}
	switch {
	case r <= 0.25:
		return sign * sinPi(r)
	case r <= 0.75:
		return sign * cosPi(0.5-r)
	}
	return sign * sinPi(1-r)
}

// angle is πt as a sum.
func angle(t float64) (h, l float64) {
	h = float64(t * piHi)
	return h, math.FMA(t, piHi, -h) + float64(t*piLo)
}

// sinPi is sin(πt) for |t| ≤ ¼.
func sinPi(t float64) float64 {
	x, low := angle(t)
	z := float64(x * x)
	p := 1. / 121645100408832000
	for _, c := range [...]float64{-1. / 355687428096000, 1. / 1307674368000, -1. / 6227020800, 1. / 39916800, -1. / 362880, 1. / 5040, -1. / 120, 1. / 6} {
		p = float64(p*z) + c
	}
	return x + (float64(low*(1-float64(z/2))) - float64(float64(p*z)*x))
}

// cosPi is cos(πt) for |t| ≤ ¼.
func cosPi(t float64) float64 {
	x, low := angle(t)
	z := float64(x * x)
	p := -1. / 6402373705728000
	for _, c := range [...]float64{1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800, 1. / 40320, -1. / 720, 1. / 24} {
		p = float64(p*z) + c
	}
	s, lost := twoSum(1, -float64(z/2))
	// What z lost, and the lower part of the angle.
	return s + (lost + (float64(float64(p*z)*z) - float64(x*low) - float64(math.FMA(x, x, -z)/2)))
}
