package portable

import "math"

// ln 2 as a sum: a multiple of ln2Hi by a whole number below 2¹¹ is exact.
const (
	ln2Hi = 0x1.62e42fefa38p-1
	ln2Lo = 0x1.ef35793c7673p-45
)

// Exp returns eˣ, within 0.6 of a unit in the last place.
func Exp(x float64) float64 { return exp(x, 0) }

// exp is e to the power of x + low, |low| far below |x|.
func exp(x, low float64) float64 {
	switch {
	case x != x || x > 709.8:
		return x * math.Inf(1)
	case x < -745.2:
		return 0
	}
	// x = k·ln 2 + r, |r| ≤ ln 2 / 2, and a rest below the last place of r.
	k := math.RoundToEven(x * math.Log2E)
	a := x - float64(k*ln2Hi) // exact
	r, rest := twoSum(a, low-float64(k*ln2Lo))
	// What follows 1 + r + r²/2 of the series.
	p := 1. / 87178291200
	for _, c := range [...]float64{1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6} {
		p = float64(p*r) + c
	}
	z := float64(r * r)
	p = float64(float64(p*z) * r)
	s, lost := twoSum(1, r)
	s, more := twoSum(s, float64(z/2))
	lost += more + float64(math.FMA(r, r, -z)/2)
	y := s + (lost + (float64(rest*(1+r)) + p))
	if math.Abs(k) < 1021 { // y is around 1
		return y * math.Float64frombits(uint64(1023+int64(k))<<52)
	}
	return math.Ldexp(y, int(k))
}

// twoSum returns the sum of a and b and what its rounding lost.
func twoSum(a, b float64) (s, lost float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// Exp2 returns 2ˣ, exact for whole numbers.
func Exp2(x float64) float64 { return Pow(2, x) }

// Log returns the natural logarithm of x, within 0.6 of a unit in the last place.
func Log(x float64) float64 {
	switch {
	case x != x || x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x > math.MaxFloat64:
		return x
	}
	h, l := log(x)
	return h + l
}

// log returns the logarithm of a finite x > 0 as a sum of two.
func log(x float64) (h, l float64) {
	// x = 2ᵏ·m with m around 1; log m = 2·artanh(s), s = (m−1)/(m+1).
	b := math.Float64bits(x)
	m, k := math.Float64frombits(b&^(0x7ff<<52)|1022<<52), int(b>>52)-1022
	if k == -1022 { // x is no normal number
		m, k = math.Frexp(x)
	}
	if m < math.Sqrt2/2 {
		m, k = 2*m, k-1
	}
	f := m - 1 // exact
	d, dLow := twoSum(2, f)
	s := f / d
	sLow := (math.FMA(-s, d, f) - float64(s*dLow)) / d
	// 2s + 2s³/3, the second term with what its roundings lost, and the others.
	z := float64(s * s)
	zLow := math.FMA(s, s, -z) + float64(2*s*sLow)
	t := float64(z * third)
	tLow := math.FMA(z, third, -t) + (float64(z*thirdLow) + float64(zLow*third))
	u := float64(2 * s * t)
	uLow := math.FMA(2*s, t, -u) + float64(2*(float64(s*tLow)+float64(sLow*t)))
	p := 1. / 25
	for _, c := range [...]float64{1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5} {
		p = float64(p*z) + c
	}
	rest := float64(2 * s * float64(float64(p*z)*z))
	h, l = twoSum(float64(float64(k)*ln2Hi), float64(2*s))
	h, more := twoSum(h, u)
	l += more + (float64(float64(k)*ln2Lo) + (float64(2*sLow) + (uLow + rest)))
	return twoSum(h, l)
}

const (
	third    = 1. / 3
	thirdLow = 0x1.5555555555555p-56 // what is left of ⅓
)

// Log2 returns the binary logarithm of x, exact for powers of two.
func Log2(x float64) float64 {
	m, k := math.Frexp(x)
	if m == 0.5 {
		return float64(k - 1)
	}
	return float64(Log(m)*(1/math.Ln2)) + float64(k)
}

// Pow returns xʸ, within 0.6 of a unit in the last place. Special cases are those of
// math.Pow.
func Pow(x, y float64) float64 {
	switch whole := math.Trunc(y) == y; {
	case y == 0 || x == 1:
		return 1
	case x-x != 0 || y-y != 0 || x == 0:
		return math.Pow(x, y) // NaN, an infinity or zero
	case x < 0 && !whole:
		return math.NaN()
	case x < 0 && math.Mod(y, 2) != 0:
		return -Pow(-x, y)
	}
	h, l := log(math.Abs(x))
	p := h * y
	if math.Abs(p) > 800 {
		return exp(p, 0)
	}
	return exp(p, math.FMA(h, y, -p)+float64(l*y))
}
