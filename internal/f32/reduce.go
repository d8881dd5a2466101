package f32

import (
	"encoding/binary"
	"math"
)

// Reductions: a vector to one number, in an order fixed by its length alone.
// Sums run in float64 over sixteen interleaved partial sums,
//
//	for i: s[i%16] += term(i)
//	t[j] = (s[j]+s[j+4]) + (s[j+8]+s[j+12])  for j < 4
//	result = (t[0]+t[1]) + (t[2]+t[3])
//
// so equal input gives equal bits, on one thread or many machines, with
// assembly or without. (The product of two float32 is exact in float64: fused
// or not, it adds the same.)
type lanes = [16]float64

// total adds up partial sums.
func total(s *lanes) float64 {
	var t [4]float64
	for j := range t {
		t[j] = (s[j] + s[j+4]) + (s[j+8] + s[j+12])
	}
	return (t[0] + t[1]) + (t[2] + t[3])
}

// Dot returns the inner product Σ a[i]·b[i]. It panics unless the lengths
// agree; empty gives 0.
func Dot(a, b []float32) float64 {
	same("Dot", len(b), len(a))
	var s lanes
	n := dotAVX2(&s, a, b)
	dotGo(&s, a[n:], b[n:])
	return total(&s)
}

// dotGo adds the terms of a and b, from a multiple of sixteen on.
func dotGo(s *lanes, a, b []float32) {
	for len(a) >= len(s) && len(b) >= len(s) {
		p, q := (*[len(s)]float32)(a), (*[len(s)]float32)(b)
		for i := range s {
			s[i] += float64(float64(p[i]) * float64(q[i]))
		}
		a, b = a[len(s):], b[len(s):]
	}
	for i, v := range a {
		s[i] += float64(float64(v) * float64(b[i]))
	}
}

// SumSq returns the squared Euclidean norm Σ x[i]².
func SumSq(x []float32) float64 { return Dot(x, x) }

// Sum returns Σ x[i].
func Sum(x []float32) float64 { return sum(x, math.MaxUint32) }

// SumAbs returns Σ |x[i]|. Finite elements cannot overflow it, so it is finite
// just if they all are.
func SumAbs(x []float32) float64 { return sum(x, magnitude) }

const magnitude = 1<<31 - 1 // the bits of a float32 without its sign

// sum adds up the elements, of each the bits in mask.
func sum(x []float32, mask uint32) float64 {
	var s lanes
	n := sumAVX2(&s, x, mask)
	sumGo(&s, x[n:], mask)
	return total(&s)
}

// sumGo adds the terms of x, from a multiple of sixteen on.
func sumGo(s *lanes, x []float32, mask uint32) {
	for len(x) >= len(s) {
		p := (*[len(s)]float32)(x)
		for i := range s {
			s[i] += float64(math.Float32frombits(math.Float32bits(p[i]) & mask))
		}
		x = x[len(s):]
	}
	for i, v := range x {
		s[i] += float64(math.Float32frombits(math.Float32bits(v) & mask))
	}
}

// MaxAbs returns the largest |x[i]|, 0 for an empty vector. A NaN counts as
// larger than everything, so one NaN anywhere makes the result NaN:
//
//	for i: m = max(m, bits(x[i]) &^ sign)
func MaxAbs(x []float32) float32 { return math.Float32frombits(maxBits(x)) }

func maxBits(x []float32) uint32 {
	n, most := maxBitsAVX2(x)
	return max(most, maxBitsGo(x[n:]))
}

func maxBitsGo(x []float32) uint32 {
	var m0, m1 uint32
	for len(x) >= 2 {
		p := (*[2]float32)(x)
		m0 = max(m0, math.Float32bits(p[0])&magnitude)
		m1 = max(m1, math.Float32bits(p[1])&magnitude)
		x = x[2:]
	}
	for _, v := range x {
		m0 = max(m0, math.Float32bits(v)&magnitude)
	}
	return max(m0, m1)
}

// The bits of infinity in each format: what is not finite has no smaller
// magnitude.
const (
	infinity   = 0x7f800000
	infiniteBF = 0x7f80
	infiniteFP = 0x7c00
)

// AllFinite reports whether no element is infinite or NaN. It looks every 4096
// elements and stops early.
func AllFinite(x []float32) bool {
	for len(x) > 0 {
		n := min(len(x), 4096)
		if maxBits(x[:n]) >= infinity {
			return false
		}
		x = x[n:]
	}
	return true
}

// AllFiniteBytes is AllFinite for float32 in their byte form, at any alignment.
// Bytes behind the last whole element do not count.
func AllFiniteBytes(b []byte) bool { return maxBytes(b) < infinity }

func maxBytes(b []byte) uint32 {
	n, most := maxBytesAVX2(b)
	return max(most, maxBytesGo(b[n:]))
}

func maxBytesGo(b []byte) (m uint32) {
	for ; len(b) >= 4; b = b[4:] {
		m = max(m, binary.LittleEndian.Uint32(b)&magnitude)
	}
	return m
}

// AllFiniteBF16 is AllFinite for bfloat16 bytes. A last odd byte does not count.
func AllFiniteBF16(b []byte) bool { return maxHalf(b) < infiniteBF }

// AllFiniteFP16 is AllFinite for half-precision bytes. A last odd byte does not
// count.
func AllFiniteFP16(b []byte) bool { return maxHalf(b) < infiniteFP }

// maxHalf is the largest magnitude among halves of either format.
func maxHalf(b []byte) uint16 {
	n, pair := maxHalfAVX2(b)
	return max(uint16(pair), uint16(pair>>16), maxHalfGo(b[n:]))
}

func maxHalfGo(b []byte) (m uint16) {
	for ; len(b) >= 2; b = b[2:] {
		m = max(m, binary.LittleEndian.Uint16(b)&0x7fff)
	}
	return m
}
