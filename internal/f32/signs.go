package f32

import "math"

// Vectors of signs: one bit an element, the first in the lowest bit.

// Signs writes the sign bits of x, 1 for x[i] < 0 and for −0, and zeros behind
// the last. It panics unless len(dst) == ⌈len(x)/8⌉.
func Signs(dst []byte, x []float32) {
	same("Signs", len(dst), (len(x)+7)/8)
	n := signsAVX2(dst, x)
	signsGo(dst[n/8:], x[n:])
}

func signsGo(dst []byte, x []float32) {
	for len(x) >= 8 {
		v := (*[8]float32)(x)
		dst[0] = byte(math.Float32bits(v[0])>>31 | math.Float32bits(v[1])>>31<<1 |
			math.Float32bits(v[2])>>31<<2 | math.Float32bits(v[3])>>31<<3 |
			math.Float32bits(v[4])>>31<<4 | math.Float32bits(v[5])>>31<<5 |
			math.Float32bits(v[6])>>31<<6 | math.Float32bits(v[7])>>31<<7)
		x, dst = x[8:], dst[1:]
	}
	if len(x) > 0 {
		dst[0] = 0
		for i, v := range x {
			dst[0] |= byte(math.Float32bits(v)>>31) << uint(i)
		}
	}
}

// AddSigns adds one of two numbers to each element, as its bit says:
//
//	for i: dst[i] += plus if bit i of b is 0, else minus
//
// It panics unless len(b) == ⌈len(dst)/8⌉.
func AddSigns(dst []float32, plus, minus float32, b []byte) {
	same("AddSigns", len(b), (len(dst)+7)/8)
	n := addSignsAVX2(dst, plus, minus, b)
	addSignsGo(dst[n:], plus, minus, b[n/8:])
}

func addSignsGo(dst []float32, plus, minus float32, b []byte) {
	v := [2]float32{plus, minus}
	for ; len(dst) >= 8; dst, b = dst[8:], b[1:] {
		d, s := (*[8]float32)(dst), b[0]
		d[0] += v[s&1]
		d[1] += v[s>>1&1]
		d[2] += v[s>>2&1]
		d[3] += v[s>>3&1]
		d[4] += v[s>>4&1]
		d[5] += v[s>>5&1]
		d[6] += v[s>>6&1]
		d[7] += v[s>>7]
	}
	for i := range dst {
		dst[i] += v[b[0]>>uint(i)&1]
	}
}
