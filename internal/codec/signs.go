package codec

import "math"

// Signs writes the sign bits of x, 1 for x[i] < 0 and for −0, and zeros behind the
// last, and returns Σ|x[i]| and Σx[i], taken as f32.SumAbs and f32.Sum take them:
// in float64 over sixteen interleaved partial sums. Finite elements cannot overflow
// the first, so it is finite just if they all are. It panics unless len(dst) ==
// ⌈len(x)/8⌉.
func Signs(dst []byte, x []float32) (abs, sum float64) {
	same("Signs", len(dst), (len(x)+7)/8)
	var s [32]float64
	n := signSumsAVX2(dst, x, &s)
	signSumsGo(dst[n/8:], x[n:], &s)
	return total16(s[:16]), total16(s[16:])
}

// signSumsGo starts at a multiple of sixteen.
func signSumsGo(dst []byte, x []float32, s *[32]float64) {
	clear(dst)
	for i, v := range x {
		u := math.Float32bits(v)
		dst[i>>3] |= byte(u>>31) << (i & 7)
		s[i&15] += float64(math.Float32frombits(u & magnitude))
		s[16+i&15] += float64(v)
	}
}

func total16(s []float64) float64 {
	var t [4]float64
	for j := range t {
		t[j] = (s[j] + s[j+4]) + (s[j+8] + s[j+12])
	}
	return (t[0] + t[1]) + (t[2] + t[3])
}
