package portable

import "math"

// Erf returns the error function 2/√π·∫₀ˣ exp(−t²)dt, off by less than 2⁻⁴⁸.
func Erf(x float64) float64 {
	switch {
	case x != x:
		return x
	case x < 0:
		return -Erf(-x)
	case x > 6:
		return 1
	}
	// e^(−x²)·Σ 2ⁿx²ⁿ⁺¹/(2n+1)!!, whose terms have one sign.
	z, term, sum := 2*x*x, x, x
	for n := 3.; term > sum*0x1p-60; n += 2 {
		term = term * z / n
		sum += term
	}
	return min(1, 2/math.Sqrt(math.Pi)*Exp(-float64(x*x))*sum)
}

// Erfinv returns the x of which Erf is y, for |y| < 1: as near as y is to Erf(x), which is
// nearer in the middle than at the ends, where it is infinite.
func Erfinv(y float64) float64 {
	switch {
	case y != y || y < -1 || y > 1:
		return math.NaN()
	case y < 0:
		return -Erfinv(-y)
	case y == 1:
		return math.Inf(1)
	}
	// By bisection, then by Newton's steps, until they do not get any nearer.
	lo, hi := 0., 6.
	for range 20 {
		if mid := (lo + hi) / 2; Erf(mid) < y {
			lo = mid
		} else {
			hi = mid
		}
	}
	x, off := hi, math.Inf(1)
	for {
		miss := Erf(x) - y
		if !(math.Abs(miss) < off) {
			return x
		}
		off = math.Abs(miss)
		x -= float64(miss * Exp(float64(x*x)) * (math.Sqrt(math.Pi) / 2))
	}
}
