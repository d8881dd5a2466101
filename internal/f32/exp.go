package f32

import (
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Exponentials in float32, each sum and product rounded by itself: an element has the
// same bits on every processor, whatever lies beside it. Softmaxes are made of them,
//
//	sum := ExpSum(y, x, Max(x)); Scale(y, float32(1/sum))
//
// and so are parts of one, with a c that is kept: the maximum so far, or the logarithm of
// a sum that is known.

const (
	expLeast, expMost = -87.3, 88.8 // beyond them results are 0 or infinite
	toInteger         = 3 << 22     // added to a number it rounds to a whole one

	// ln 2 is a sum. Its first part times a whole number below 2⁹ is exact.
	ln2Hi, ln2Lo = 0x1.62e4p-1, 0x1.7f7d1cp-20

	// The polynomial of r that is nearest to (eʳ−1−r)/r² for |r| ≤ ln 2 / 2, as Remez
	// finds it: with it eʳ is off by a factor of 1 ± 2⁻²⁸.
	exp2, exp3, exp4, exp5, exp6 = 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.123a2p-7, 0x1.6a23dp-10
)

// Exp returns eˣ, off by less than a unit in the last place. Below x = −86.99, of which that
// is 1.7e-38, Exp returns 0. It returns +Inf above the largest float32, and NaN for NaN.
func Exp(x float32) float32 {
	switch {
	case x < expLeast:
		x = expLeast
	case x > expMost:
		x = expMost
	}
	// x = k·ln 2 + r
	t := float32(x*math.Log2E) + toInteger
	k := t - toInteger
	r := (x - float32(k*ln2Hi)) - float32(k*ln2Lo)
	r2 := float32(r * r)
	low, high := float32(exp3*r)+exp2, float32(exp5*r)+exp4
	q := float32((float32(exp6*r2)+high)*r2) + low
	y := float32(r2*q) + r + 1
	// 2ᵏ is 2 times a power whose bits are the last ones of t: the greatest there is, of
	// k = 128, or 0, of k = −126.
	return float32((y + y) * math.Float32frombits(math.Float32bits(t)<<23+126<<23))
}

// ExpSum writes exponentials and returns their sum, added up as Sum does:
//
//	for i: dst[i] = e^(x[i]−c)
//
// It rounds x[i]−c to float32; from there on errors are those of Exp. A c of −Inf counts
// as 0, so that a row of −Inf, of which that is the maximum, gives zeros. It panics unless
// len(x) == len(dst).
func ExpSum(dst, x []float32, c float32) float64 {
	same("ExpSum", len(x), len(dst))
	if c < -math.MaxFloat32 {
		c = 0
	}
	var s lanes
	n := expSumAVX512(&s, dst, x, c)
	n += expSumAVX2(&s, dst[n:], x[n:], c)
	expSumGo(&s, dst[n:], x[n:], c)
	return total(&s)
}

// expSumGo goes on from a multiple of sixteen.
func expSumGo(s *lanes, dst, x []float32, c float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		e := Exp(v - c)
		dst[i] = e
		s[i%len(s)] += float64(e)
	}
}

// Max returns the largest element that is not NaN, −Inf if there is none. It returns 0
// for −0.
func Max(x []float32) float32 {
	top := float32(math.Inf(-1))
	if n, most := greatestAVX2(x); n > 0 {
		top, x = most, x[n:]
	}
	return greatestGo(x, top) + 0
}

func greatestGo(x []float32, top float32) float32 {
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// CrossEntropy returns the loss of logits z for class y, and writes its gradient times
// scale:
//
//	loss = log Σ e^z[i] − z[y],  dz[i] = scale·(e^z[i]/Σ e^z[j] − [i = y])
//
// The loss is off by some 1e-7. dz may be z. It panics unless len(dz) == len(z) and y is a
// class.
func CrossEntropy(dz, z []float32, y int, scale float32) float64 {
	same("CrossEntropy", len(dz), len(z))
	top := Max(z)
	below := float64(z[y]) - float64(top)
	sum := ExpSum(dz, z, top)
	Scale(dz, float32(float64(scale)/sum))
	dz[y] -= scale
	return portable.Log(sum) - below
}

// SoftmaxGrad takes a gradient back through a softmax whose output was y; mean is
// Σ y[i]·dy[i], the Dot of both:
//
//	for i: dx[i] = (dy[i] − mean)·y[i]
//
// It panics unless the lengths agree.
func SoftmaxGrad(dx, dy, y []float32, mean float32) {
	same("SoftmaxGrad", len(dy), len(dx))
	same("SoftmaxGrad", len(y), len(dx))
	n := softmaxGradAVX2(dx, dy, y, mean)
	softmaxGradGo(dx[n:], dy[n:], y[n:], mean)
}

func softmaxGradGo(dx, dy, y []float32, mean float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i, d := range dy {
		dx[i] = (d - mean) * y[i]
	}
}
