package f32

import "math"

// Reductions: a vector to one number, in an order fixed by its length alone.
// Sums run in float64 over four interleaved partial sums,
//
//	for i: s[i%4] += term(i)
//	result = (s[0]+s[1]) + (s[2]+s[3])
//
// so equal input gives equal bits, on one thread or many machines.

// Dot returns the inner product Σ a[i]·b[i]. Each product of two float32 is
// exact in float64. It panics unless the lengths agree; empty gives 0.
func Dot(a, b []float32) float64 {
	same("Dot", len(b), len(a))
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		p, q := a[:4:4], b[:4:4]
		s0 += float64(p[0]) * float64(q[0])
		s1 += float64(p[1]) * float64(q[1])
		s2 += float64(p[2]) * float64(q[2])
		s3 += float64(p[3]) * float64(q[3])
		a, b = a[4:], b[4:]
	}
	s := [4]float64{s0, s1, s2, s3}
	for i, v := range a {
		s[i&3] += float64(v) * float64(b[i])
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// SumSq returns the squared Euclidean norm Σ x[i]².
func SumSq(x []float32) float64 { return Dot(x, x) }

// Sum returns Σ x[i].
func Sum(x []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		p := x[:4:4]
		s0 += float64(p[0])
		s1 += float64(p[1])
		s2 += float64(p[2])
		s3 += float64(p[3])
		x = x[4:]
	}
	s := [4]float64{s0, s1, s2, s3}
	for i, v := range x {
		s[i&3] += float64(v)
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// MaxAbs returns the largest |x[i]|, 0 for an empty vector. A NaN counts as
// larger than everything, so one NaN anywhere makes the result NaN:
//
//	for i: m = max(m, bits(x[i]) &^ sign)
func MaxAbs(x []float32) float32 {
	const abs = 1<<31 - 1
	var m0, m1 uint32
	for len(x) >= 2 {
		p := x[:2:2]
		m0 = max(m0, math.Float32bits(p[0])&abs)
		m1 = max(m1, math.Float32bits(p[1])&abs)
		x = x[2:]
	}
	for _, v := range x {
		m0 = max(m0, math.Float32bits(v)&abs)
	}
	return math.Float32frombits(max(m0, m1))
}

// AllFinite reports whether no element is infinite or NaN, that is, whether no
// exponent is all ones. Adding one to the exponent field carries into the
// sign bit just then:
//
//	for i: acc |= (bits(x[i]) &^ sign) + 1<<23
//	return acc's sign bit is clear
//
// It looks at acc every 1024 elements and stops early.
func AllFinite(x []float32) bool {
	const abs, one = 1<<31 - 1, 1 << 23
	for len(x) > 0 {
		n := min(len(x), 1024)
		var acc, acc2 uint32
		y := x[:n]
		for len(y) >= 2 {
			p := y[:2:2]
			acc |= math.Float32bits(p[0])&abs + one
			acc2 |= math.Float32bits(p[1])&abs + one
			y = y[2:]
		}
		for _, v := range y {
			acc |= math.Float32bits(v)&abs + one
		}
		if (acc|acc2)>>31 != 0 {
			return false
		}
		x = x[n:]
	}
	return true
}
