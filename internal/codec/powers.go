package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Rounding by adding random bits below the place where a number is cut off: what
// carries does so with exactly the probability that makes the mean right.

// Exponents rounds magnitudes to powers of two and writes their exponents as they
// stand in float32, at most 254:
//
//	codes[i] = min((|x[i]| as bits + 23 random bits) >> 23, 254)
//
// Elements must be finite. The bits are the low ones of half h%2 of draw h/2 of key
// for element h of a block; first is the place of x[0] in it, an even one. It panics
// unless len(codes) == len(x).
func Exponents(codes []byte, x []float32, key rng.Key, first uint64) {
	same("Exponents", len(codes), len(x))
	n := exponentsAVX2(codes, x, start(key, first>>1))
	exponentsGo(codes[n:], x[n:], key, first+uint64(n))
}

func exponentsGo(codes []byte, x []float32, key rng.Key, first uint64) {
	codes = codes[:len(x)]
	var draw uint64
	for i, v := range x {
		if draw >>= 32; i&1 == 0 {
			draw = key.Uint64(first>>1 + uint64(i)>>1)
		}
		codes[i] = byte(min((math.Float32bits(v)&magnitude+uint32(draw)&(1<<23-1))>>23, 254))
	}
}

// AddExponents adds powers of two, given the exponents and signs of float32:
//
//	for i: dst[i] += scale · (−1 if bit i of signs, else 1)·2^(codes[i]−127), 0 for a code of 0
//
// It panics unless there is a code and a bit for each element.
func AddExponents(dst []float32, scale float32, codes, signs []byte) {
	same("AddExponents", len(codes), len(dst))
	same("AddExponents", len(signs), (len(dst)+7)/8)
	n := addExponentsAVX2(dst, scale, codes, signs)
	addExponentsGo(dst[n:], scale, codes[n:], signs[n/8:])
}

func addExponentsGo(dst []float32, scale float32, codes, signs []byte) {
	for i, e := range codes {
		sign := uint32(signs[i>>3]>>(uint(i)&7)) << 31
		dst[i] += float32(scale * math.Float32frombits(sign|uint32(e)<<23))
	}
}
